// Products with a weight in half precision: x Wᵀ + b, and the gradients E W and Eᵀ X.
//
// Shapes: R rows, K inputs, N outputs.

static constexpr int64_t ROWS_AT_ONCE = 48;     // of a left factor, narrowed into the nearest cache

static int64_t packed_room(const Product& asked) { return panels_of(asked.columns) * pairs_of(asked.inner) * PANEL; }

// Some panels of a right factor: W (columns, inner), or where it is not to be turned W (inner, columns).
static void pack(const Product& asked, int64_t from, int64_t to, uint32_t* packed) {
  for (int64_t panel = from; panel < to; ++panel) {
    int64_t column = panel * PANEL, count = smaller(PANEL, asked.columns - column);
    Pair* place = packed + panel * pairs_of(asked.inner) * PANEL;
    if (asked.turned)
      turn_panel(asked.weight + column * asked.inner, asked.inner, count, asked.inner, place);
    else
      zip_panel(asked.weight + column, asked.columns, asked.inner, count, place);
  }
}

// What sums of a tile start from.
template <class Out, class Tile>
static inline __attribute__((always_inline)) void begin(const Product& asked, const Out* out, int64_t panel,
                                                        const Edge& edge, Tile& sums) {
  if constexpr (sizeof(Out) == sizeof(float))
    if (asked.adds) return sums.load(out, asked.columns, edge);
  if (asked.bias)
    sums.load(asked.bias + panel * PANEL, 0, edge);
  else
    sums.clear();
}

template <class Out>
static void multiply_laid(const Product& asked, const Pair* left, int64_t rows, const uint32_t* packed, Out* out) {
  int64_t pairs = pairs_of(asked.inner), stride = asked.columns;
  for (int64_t panel = 0; panel < panels_of(asked.columns); ++panel) {
    const Pair* right = packed + panel * pairs * PANEL;
    Edge edge(asked.columns - panel * PANEL);
    by_tiles(rows, [&](auto tall, int64_t row) {
      auto sums = sums_of(tall);
      begin(asked, out + row * stride + panel * PANEL, panel, edge, sums);
      add_pairs(pairs, row_left(left + row * pairs, pairs), right, sums);
      sums.save(out + row * stride + panel * PANEL, stride, edge);
    });
  }
}

// Rows of a left factor as pairs: where they are, or narrowed into a room.
static inline const Pair* laid(const Half* rows, int64_t count, int64_t inner, Pair* room) {
  if (inner % 2 == 0) return reinterpret_cast<const Pair*>(rows);
  lay_rows(rows, inner, count, inner, room);
  return room;
}
static inline const Pair* laid(const float* rows, int64_t count, int64_t inner, Pair* room) {
  lay_rows(rows, inner, count, inner, room);
  return room;
}

template <class In, class Out>
static void multiply_rows(const Product& asked, int64_t from, int64_t to, const uint32_t* packed, uint32_t* room) {
  Tiles tiles;
  const In* in = static_cast<const In*>(asked.in);
  Out* out = static_cast<Out*>(asked.out);
  for (int64_t row = from; row < to; row += ROWS_AT_ONCE) {
    int64_t count = smaller(ROWS_AT_ONCE, to - row);
    const Pair* left = laid(in + row * asked.inner, count, asked.inner, room);
    multiply_laid(asked, left, count, packed, out + row * asked.columns);
  }
}

static int64_t multiply_room(const Product& asked) { return ROWS_AT_ONCE * pairs_of(asked.inner); }
static void multiply_some(const Product& asked, int64_t from, int64_t to, const uint32_t* packed, uint32_t* room) {
  if (asked.narrow_in)
    (asked.narrow_out ? multiply_rows<Half, Half> : multiply_rows<Half, float>)(asked, from, to, packed, room);
  else
    (asked.narrow_out ? multiply_rows<float, Half> : multiply_rows<float, float>)(asked, from, to, packed, room);
}

static int64_t turned_room(const Turned& asked) {
  return SUMMED_AT_ONCE / 2 * PANEL * (1 + panels_of(asked.inputs));
}

// Panel by panel of E, for some of its rows.
static void add_turned(const Turned& asked, int64_t start, int64_t count, int64_t panel, Pair* laid,
                       const Pair* inputs) {
  int64_t column = panel * PANEL, width = asked.inputs, pairs = pairs_of(count);
  int64_t outputs = smaller(PANEL, asked.outputs - column);
  lay_columns(static_cast<const Half*>(asked.errors) + start * asked.outputs + column, asked.outputs, count, outputs,
              laid);
  if (asked.of_bias) add_columns(laid, pairs, start == 0, outputs, asked.of_bias + column);
  for (int64_t part = 0; asked.of_weight && part < panels_of(width); ++part) {
    float* out = asked.of_weight + column * width + part * PANEL;
    Edge edge(width - part * PANEL);
    by_tiles(outputs, [&](auto tall, int64_t row) {
      auto sums = sums_of(tall);
      if (start)
        sums.load(out + row * width, width, edge);
      else
        sums.clear();
      add_pairs(pairs, column_left(laid, pairs, row), inputs + part * pairs * PANEL, sums);
      sums.save(out + row * width, width, edge);
    });
  }
}

template <class In>
static void multiply_turned_panels(const Turned& asked, int64_t from, int64_t to, uint32_t* room) {
  Tiles tiles;
  Pair* inputs = room + SUMMED_AT_ONCE / 2 * PANEL;
  for (int64_t start = 0; start < asked.rows; start += SUMMED_AT_ONCE) {
    int64_t count = smaller(SUMMED_AT_ONCE, asked.rows - start);
    const In* in = static_cast<const In*>(asked.in) + start * asked.inputs;
    for (int64_t column = 0; column < asked.inputs; column += PANEL)
      zip_panel(in + column, asked.inputs, count, smaller(PANEL, asked.inputs - column),
                inputs + column * pairs_of(count));
    for (int64_t panel = from; panel < to; ++panel) add_turned(asked, start, count, panel, room, inputs);
  }
}

static void multiply_turned(const Turned& asked, int64_t from, int64_t to, uint32_t* room) {
  (asked.narrow_in ? multiply_turned_panels<Half> : multiply_turned_panels<float>)(asked, from, to, room);
}
