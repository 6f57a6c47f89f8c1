// What is done to rows: quantisation, norms, products with their stores, the output projection.

// A vector of a row from `column` on, with zeros behind its end; WHOLE: it is known not to reach the end.
template <bool WHOLE = false>
static inline Lanes part(const float* in, int64_t column, int64_t width) {
  return WHOLE || column + LANES <= width ? load(in + column) : load_some(in + column, width - column);
}

template <bool WHOLE = false>
static inline void keep(float* out, Lanes value, int64_t column, int64_t width) {
  if (WHOLE || column + LANES <= width)
    save(out + column, value);
  else
    save_some(out + column, value, width - column);
}

// Which of four vectors in turn, and whether it is a whole one. Known to the compiler, so that sums stay in registers.
template <int PLACE, bool WHOLE>
struct Turn {
  static constexpr int place = PLACE;
  static constexpr bool whole = WHOLE;

  static Lanes read(const float* in, int64_t column, int64_t width) { return part<WHOLE>(in, column, width); }
  static void write(float* out, Lanes value, int64_t column, int64_t width) { keep<WHOLE>(out, value, column, width); }
  // `value`, and zeros behind the last column.
  static Lanes real(Lanes value, int64_t column, int64_t width) {
    if (WHOLE || column + LANES <= width) return value;
    float held[REGARD_LANES];
    save(held, value);
    return load_some(held, width - column);
  }
};

// Calls `work` with each column where a vector begins, and its turn.
template <class Work>
static inline __attribute__((always_inline)) void by_vectors(int64_t width, Work work) {
  int64_t column = 0;
  for (; column + 4 * LANES <= width; column += 4 * LANES) {
    work(column, Turn<0, true>());
    work(column + LANES, Turn<1, true>());
    work(column + 2 * LANES, Turn<2, true>());
    work(column + 3 * LANES, Turn<3, true>());
  }
  for (; column < width; column += LANES) work(column, Turn<0, false>());
}

static inline Lanes all_four(const Lanes (&parts)[4]) { return (parts[0] + parts[1]) + (parts[2] + parts[3]); }

// What quantisation must know of a row, of four vectors in turn: one sum alone would wait for itself.
struct Extent {
  Lanes most[4] = {}, poison[2] = {};

  template <class Place>
  void see(Lanes value, Place) {
    most[Place::place] = larger(positive(value), most[Place::place]);
    poison[Place::place % 2] += value * 0.0f;  // NaN where one is not finite: a damaged model is found out
  }
  float top() const { return largest(larger(larger(most[0], most[1]), larger(most[2], most[3]))); }
  float fault() const { return sum(poison[0] + poison[1]); }
};

static inline void quantise_seen(const Extent& extent, const float* in, int64_t width, uint8_t* out, float* scale) {
  float top = extent.top();
  float inverse = top > 0 ? 127.0f / top : 0.0f;
  *scale = top / 127.0f + extent.fault();
  by_vectors(width, [&](int64_t column, auto turn) __attribute__((always_inline)) {
    int64_t count = turn.whole || width - column > LANES ? LANES : width - column;
    IntegerLanes integers;
    rounded(turn.read(in, column, width) * inverse, &integers);
    integers += 128;
#if defined(REGARD_AVX512)
    __m128i bytes = _mm512_cvtepi32_epi8((__m512i)integers);
    _mm_mask_storeu_epi8(out + column, static_cast<__mmask16>((1u << count) - 1), bytes);
#else
    for (int64_t lane = 0; lane < count; ++lane) out[column + lane] = static_cast<uint8_t>(integers[lane]);
#endif
  });
  for (int64_t column = width; column % 4; ++column) out[column] = 128;
}

static void quantise(const float* in, int64_t rows, int64_t width, int64_t stride, uint8_t* out, int64_t out_stride,
                     float* scales) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = in + row * stride;
    Extent extent;
    by_vectors(width, [&](int64_t column, auto turn) __attribute__((always_inline)) {
      extent.see(turn.read(from, column, width), turn);
    });
    quantise_seen(extent, from, width, out + row * out_stride, scales + row);
  }
}

static inline float mean_of(const float* row, int64_t width) {
  Lanes total[4] = {};
  by_vectors(width, [&](int64_t column, auto turn) __attribute__((always_inline)) {
    total[turn.place] += turn.read(row, column, width);
  });
  return sum(all_four(total)) / static_cast<float>(width);
}

static void norm(const NormWeights& weights, const float* in, int64_t rows, int64_t width, float* out, uint8_t* bytes,
                 int64_t byte_stride, float* scales) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = in + row * width;
    float* to = out + row * width;
    float mean = weights.bias ? mean_of(from, width) : 0.0f;
    Lanes squares[4] = {};
    by_vectors(width, [&](int64_t column, auto turn) __attribute__((always_inline)) {
      Lanes apart = turn.real(turn.read(from, column, width) - mean, column, width);
      squares[turn.place] += apart * apart;
    });
    float variance = sum(all_four(squares)) / static_cast<float>(width);
    float inverse = 1.0f / __builtin_sqrtf(variance + weights.epsilon);
    Extent extent;
    by_vectors(width, [&](int64_t column, auto turn) __attribute__((always_inline)) {
      Lanes value = (turn.read(from, column, width) - mean) * inverse * turn.read(weights.gain, column, width);
      if (weights.bias) value += turn.read(weights.bias, column, width);
      turn.write(to, value, column, width);
      extent.see(turn.real(value, column, width), turn);
    });
    if (bytes) quantise_seen(extent, to, width, bytes + row * byte_stride, scales + row);
  }
}

// A product of few rows is done as soon as its weights come: they are called for so many bytes before they are used.
static constexpr int64_t AHEAD = 8192;

// The tile of rows from `row`. One that has its panel alone calls for what comes AHEAD of it; of several, the first
// four call for the next panel, each for a quarter of it. The unit for matrices is so fast that calls would hold up what
// it loads: the processor brings panels by itself.
static inline ByteTile byte_tile_of(const Rows& rows, const Weights& weights, int64_t panel, int64_t row) {
  int64_t quads = (weights.inputs + 3) / 4, size = quads * 4 * PANEL;
  ByteTile tile;
  tile.rows = rows.bytes + row * rows.byte_stride;
  tile.stride = rows.byte_stride;
  tile.panel = weights.bytes + panel * size;
  tile.quads = quads;
  tile.start = weights.shift + panel * PANEL;
  tile.start_stride = 0;
  tile.row_scales = rows.scales + row;
  tile.scales = weights.scales + panel * PANEL;
  tile.bias = weights.bias + panel * PANEL;
  tile.ahead = tile.panel + AHEAD;
  if (Unit::works(rows.count, true)) tile.before = row && rows.count - row < TILE ? TILE - (rows.count - row) : 0;
  tile.later = rows.count > TILE;
  if (tile.later) tile.ahead = row < 4 * TILE && tile.before < 0 ? tile.panel + size + 64 * (row / TILE) : nullptr;
  return tile;
}

// With a few tiles, weights come while products are made only if all tiles use a part of the panel before the next: so
// many quads.
static constexpr int64_t FEW = 4 * TILE, PART = 16;

static inline bool in_parts(const Rows& rows, const Weights& weights) {
  bool few = rows.count > TILE && rows.count <= FEW && !Unit::works(rows.count, true);
  return few && weights.bytes && weights.inputs > 4 * PART;
}

// A tile from quad `first` on, of whose rows sums have been begun.
static inline ByteTile part_of(ByteTile tile, int64_t row, int64_t first, const int32_t* sums) {
  tile.rows += 4 * first;
  tile.panel += first * 4 * PANEL;
  tile.ahead = tile.panel + PART * 4 * PANEL + 64 * (row / TILE);
  tile.later = false;
  tile.quads -= first;
  if (!first) return tile;
  tile.start = sums + row * PANEL;
  tile.start_stride = PANEL;
  return tile;
}

// Sums of a panel over all parts but the last: [FEW][PANEL]; how many quads they are of.
static inline int64_t begin_panel(const Rows& rows, const Weights& weights, int64_t panel, int32_t* sums) {
  int64_t first = 0;
  for (; first + PART < (weights.inputs + 3) / 4; first += PART)
    for (int64_t row = 0; row < rows.count; row += TILE) {
      ByteTile tile = part_of(byte_tile_of(rows, weights, panel, row), row, first, sums);
      tile.quads = PART;
      byte_tiles(rows.count - row < TILE ? rows.count - row : TILE, tile, sums + row * PANEL);
    }
  return first;
}

// One tile as floats, with its bias: [TILE][PANEL].
static inline void float_values(const Rows& rows, const Weights& weights, int64_t panel, int64_t row, int64_t count,
                                float* values) {
  const float* bias = weights.bias + panel * PANEL;
  float_tiles(count, rows.floats + row * rows.stride, rows.stride, weights.floats + panel * PANEL * weights.inputs,
              weights.inputs, values);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t column = 0; column < PANEL; column += LANES)
      save(values + r * PANEL + column, load(values + r * PANEL + column) + load(bias + column));
}

static inline void tile(const Rows& rows, const Weights& weights, int64_t panel, int64_t row, int64_t count,
                        float* values) {
  if (weights.bytes)
    value_tiles(count, byte_tile_of(rows, weights, panel, row), values);
  else
    float_values(rows, weights, panel, row, count, values);
}

static inline const float* residual_of(const Store& store, int64_t row, int64_t first) {
  return store.residual ? store.residual + row * store.residual_stride + first : nullptr;
}

static inline TilePlace place_of(const Store& store, int64_t first, int64_t row, int64_t count) {
  TilePlace place;
  place.out = store.out + row * store.stride + first;
  place.stride = store.stride;
  place.rectified = store.activation == Activation::relu;
  for (int64_t r = 0; r < TILE; ++r) place.residual[r] = r < count ? residual_of(store, row + r, first) : nullptr;
  return place;
}

// Some values of a panel go to their place.
static inline void put(const TilePlace& place, Activation activation, const float* values, int64_t columns,
                       int64_t count) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t column = 0; column < columns; column += LANES) {
      Lanes value = load(values + r * PANEL + column);
      if (activation != Activation::none) value = activated(value, activation);
      if (place.residual[r]) value += part(place.residual[r], column, columns);
      keep(place.out + r * place.stride, value, column, columns);
    }
}

static void product(const Rows& rows, const Weights& weights, const Store& store) {
  alignas(64) int32_t sums[FEW * PANEL];
  alignas(64) float values[TILE * PANEL];
  Unit unit(rows.count, weights.bytes);
  bool parts = in_parts(rows, weights);
  bool simple = store.activation == Activation::relu || store.activation == Activation::none;
  for (int64_t panel = 0; panel * PANEL < weights.outputs; ++panel) {
    int64_t first = panel * PANEL, begun = parts ? begin_panel(rows, weights, panel, sums) : 0;
    int64_t columns = weights.outputs - first < PANEL ? weights.outputs - first : PANEL;
    for (int64_t row = 0; row < rows.count; row += TILE) {
      int64_t count = rows.count - row < TILE ? rows.count - row : TILE;
      TilePlace place = place_of(store, first, row, count);
      if (weights.bytes) {
        ByteTile tile = byte_tile_of(rows, weights, panel, row);
        if (parts) tile = part_of(tile, row, begun, sums);
        if (simple && columns == PANEL) {
          store_tiles(count, tile, place);
          continue;
        }
        value_tiles(count, tile, values);
      } else {
        float_values(rows, weights, panel, row, count, values);
      }
      put(place, store.activation, values, columns, count);
    }
  }
}

// Tile by tile: what the second product gives is still near when it is added to the first.
static void product_sum(const Rows& rows, const Weights& weights, const Rows& more, const Weights& more_weights,
                        const Store& store) {
  alignas(64) float values[TILE * PANEL], near[TILE * PANEL];
  Unit unit(rows.count, weights.bytes);
  for (int64_t panel = 0; panel * PANEL < weights.outputs; ++panel) {
    int64_t first = panel * PANEL;
    int64_t columns = weights.outputs - first < PANEL ? weights.outputs - first : PANEL;
    for (int64_t row = 0; row < rows.count; row += TILE) {
      int64_t count = rows.count - row < TILE ? rows.count - row : TILE;
      TilePlace last = place_of(store, first, row, count), before = last;
      before.out = near;
      before.stride = PANEL;
      for (int64_t r = 0; r < TILE; ++r) last.residual[r] = near + r * PANEL;
      if (weights.bytes && columns == PANEL) {
        store_tiles(count, byte_tile_of(more, more_weights, panel, row), before);
        store_tiles(count, byte_tile_of(rows, weights, panel, row), last);
        continue;
      }
      tile(more, more_weights, panel, row, count, values);
      put(before, Activation::none, values, columns, count);
      tile(rows, weights, panel, row, count, values);
      put(last, Activation::none, values, columns, count);
    }
  }
}

static void product_int32(const Rows& rows, const Weights& weights, int32_t* out) {
  alignas(64) int32_t sums[TILE * PANEL];
  Unit unit(rows.count, true);
  for (int64_t panel = 0; panel * PANEL < weights.outputs; ++panel)
    for (int64_t row = 0; row < rows.count; row += TILE) {
      int64_t count = rows.count - row < TILE ? rows.count - row : TILE;
      byte_tiles(count, byte_tile_of(rows, weights, panel, row), sums);
      for (int64_t r = 0; r < count; ++r)
        for (int64_t column = 0; column < PANEL && panel * PANEL + column < weights.outputs; ++column)
          out[(row + r) * weights.outputs + panel * PANEL + column] = sums[r * PANEL + column];
    }
}

static inline bool allowed(const Projected& row, int32_t token) {
  for (int32_t index = 0; index < row.forbidden_count; ++index)
    if (row.forbidden[index] == token) return false;
  return true;
}

static inline void insert(Projected* row, int32_t candidates, float value, int32_t token) {
  if (!allowed(*row, token)) return;
  int32_t place = row->found < candidates ? row->found++ : candidates - 1;
  for (; place > 0 && row->best[place - 1].value < value; --place) row->best[place] = row->best[place - 1];
  row->best[place] = Candidate{value, token};
}

// A logit above the least of the best, or the first of all: the largest and the best may change.
static inline void promote(const float* logits, float top, int64_t first, int32_t candidates, Projected* row) {
  if (top > row->largest) {
    Lanes shrink = exponential(all(row->largest - top));
    for (int64_t part = 0; part < 16; part += LANES) save(row->sums + part, load(row->sums + part) * shrink);
    row->largest = top;
  }
  float least = row->found < candidates ? -__builtin_inff() : row->best[candidates - 1].value;
  for (int64_t column = 0; column < PANEL; column += LANES)
    for (uint32_t bits = above(load(logits + column), least); bits; bits &= bits - 1) {
      int64_t here = column + __builtin_ctz(bits);
      if (!(logits[here] > least)) continue;
      insert(row, candidates, logits[here], static_cast<int32_t>(first + here));
      if (row->found == candidates) least = row->best[candidates - 1].value;
    }
}

// The logits of one panel go into the sum of exponentials and the best so far. Most panels hold nothing above the least
// of the best, and then nothing above the largest either.
static inline void scan(const float* logits, int64_t first, int32_t candidates, Projected* row) {
  Lanes most = load(logits);
  for (int64_t column = LANES; column < PANEL; column += LANES) most = larger(load(logits + column), most);
  float least = row->found < candidates ? -__builtin_inff() : row->best[candidates - 1].value;
  if (above(most, least)) promote(logits, largest(most), first, candidates, row);
  float top = row->largest;
  for (int64_t part = 0; part < 16; part += LANES) {
    Lanes total = load(row->sums + part);
    for (int64_t column = part; column < PANEL; column += 16) total += shrinking(load(logits + column) - top);
    save(row->sums + part, total);
  }
}

static void project(const Rows& rows, const Weights& weights, int32_t candidates, Projected* projected) {
  alignas(64) float values[TILE * PANEL];
  Unit unit(rows.count, weights.bytes);
  for (int64_t row = 0; row < rows.count; ++row) projected[row].largest = -__builtin_inff();
  for (int64_t panel = 0; panel * PANEL < weights.outputs; ++panel) {
    int64_t first = panel * PANEL;
    int64_t columns = weights.outputs - first < PANEL ? weights.outputs - first : PANEL;
    for (int64_t row = 0; row < rows.count; row += TILE) {
      int64_t count = rows.count - row < TILE ? rows.count - row : TILE;
      tile(rows, weights, panel, row, count, values);
      for (int64_t r = 0; r < count; ++r) {
        float* logits = values + r * PANEL;
        for (int64_t column = columns; column < PANEL; ++column) logits[column] = -__builtin_inff();
        Projected* one = projected + row + r;
        if (one->wanted >= first && one->wanted < first + columns) one->wanted_logit = logits[one->wanted - first];
        scan(logits, first, candidates, one);
      }
    }
  }
}
