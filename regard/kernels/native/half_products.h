// Products with a weight in half precision: x Wᵀ, and the gradients E W and Eᵀ X.
//
// Shapes: R rows, K inputs, N outputs.

static constexpr int64_t ROWS_AT_ONCE = 48;    // of a left factor, narrowed into the nearest cache
static constexpr int64_t SUMMED_AT_ONCE = 256; // rows that are summed up before sums go back to memory

// Where a product reads and writes: rows of a stride.
struct Matrix {
  void* at;
  int64_t stride, narrow;
};

static int64_t packed_size(int64_t inner, int64_t columns) { return panels_of(columns) * pairs_of(inner) * PANEL; }

// W (N, K) as the right factor of x Wᵀ.
static void pack_turned(const float* weight, int64_t outputs, int64_t inputs, int64_t from, int64_t to, Pair* packed) {
  for (int64_t panel = from; panel < to; ++panel)
    turn_panel(weight + panel * PANEL * inputs, inputs, smaller(PANEL, outputs - panel * PANEL), inputs,
               packed + panel * pairs_of(inputs) * PANEL);
}

// W (N, K) as the right factor of E W.
static void pack(const float* weight, int64_t outputs, int64_t inputs, int64_t from, int64_t to, Pair* packed) {
  for (int64_t panel = from; panel < to; ++panel)
    zip_panel(weight + panel * PANEL, inputs, outputs, smaller(PANEL, inputs - panel * PANEL),
              packed + panel * pairs_of(outputs) * PANEL);
}

// Some rows of a left factor times a packed right one.
template <class Number>
static void multiply_laid(Left left, int64_t rows, int64_t inner, int64_t columns, const Pair* packed, Number* out,
                          int64_t stride) {
  int64_t pairs = pairs_of(inner);
  for (int64_t panel = 0; panel < panels_of(columns); ++panel) {
    const Pair* right = packed + panel * pairs * PANEL;
    Edge edge(columns - panel * PANEL);
    by_tiles(rows, [&](auto tall, int64_t row) {
      Sums<decltype(tall)::rows> sums;
      sums.clear();
      add_pairs(pairs, Left{left.at + row * left.down, left.down, 1}, right, sums);
      sums.save(out + row * stride + panel * PANEL, stride, edge);
    });
  }
}

template <class In, class Out>
static void multiply_rows(const In* in, int64_t from, int64_t to, int64_t inner, int64_t columns, const Pair* packed,
                          Out* out, Pair* room) {
  int64_t pairs = pairs_of(inner);
  for (int64_t row = from; row < to; row += ROWS_AT_ONCE) {
    int64_t count = smaller(ROWS_AT_ONCE, to - row);
    lay_rows(in + row * inner, inner, count, inner, room);
    multiply_laid(Left{room, pairs, 1}, count, inner, columns, packed, out + row * columns, columns);
  }
}

// The columns of Eᵀ X in some panels of E.
template <class Errors, class Inputs>
static void multiply_turned(const Errors* errors, const Inputs* inputs, int64_t rows, int64_t outputs, int64_t inner,
                            int64_t from, int64_t to, float* out, Pair* room) {
  Pair* right = room + SUMMED_AT_ONCE / 2 * PANEL;
  for (int64_t start = 0; start < rows; start += SUMMED_AT_ONCE) {
    int64_t count = smaller(SUMMED_AT_ONCE, rows - start), pairs = pairs_of(count);
    for (int64_t panel = 0; panel < panels_of(inner); ++panel)
      zip_panel(inputs + start * inner + panel * PANEL, inner, count, smaller(PANEL, inner - panel * PANEL),
                right + panel * pairs * PANEL);
    for (int64_t each = from; each < to; ++each) {
      int64_t wide = smaller(PANEL, outputs - each * PANEL);
      zip_panel(errors + start * outputs + each * PANEL, outputs, count, wide, room);
      for (int64_t panel = 0; panel < panels_of(inner); ++panel) {
        float* at = out + each * PANEL * inner + panel * PANEL;
        Edge edge(inner - panel * PANEL);
        by_tiles(wide, [&](auto tall, int64_t row) {
          Sums<decltype(tall)::rows> sums;
          if (start)
            sums.load(at + row * inner, inner, edge);
          else
            sums.clear();
          add_pairs(pairs, Left{room + row, 1, PANEL}, right + panel * pairs * PANEL, sums);
          sums.save(at + row * inner, inner, edge);
        });
      }
    }
  }
}
