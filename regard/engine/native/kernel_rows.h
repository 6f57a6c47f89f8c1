// What is done to rows: quantisation, norms, products with their stores, the output projection.

static inline void quantise_row(const float* in, int64_t width, uint8_t* out, float* scale) {
  Lanes most = {}, poison = {};
  int64_t column = 0;
  for (; column + LANES <= width; column += LANES) {
    Lanes value = load(in + column);
    most = larger(positive(value), most);
    poison += value * 0.0f;  // NaN where a value is not finite: a damaged model is found out, not rounded away
  }
  if (column < width) {
    Lanes value = load_some(in + column, width - column);
    most = larger(positive(value), most);
    poison += value * 0.0f;
  }
  float top = largest(most);
  float inverse = top > 0 ? 127.0f / top : 0.0f;
  *scale = top / 127.0f + sum(poison);
  for (column = 0; column < width; column += LANES) {
    int64_t count = width - column < LANES ? width - column : LANES;
    IntegerLanes integers;
    rounded((count == LANES ? load(in + column) : load_some(in + column, count)) * inverse, &integers);
    integers += 128;
#if defined(REGARD_AVX512)
    __m128i bytes = _mm512_cvtepi32_epi8((__m512i)integers);
    _mm_mask_storeu_epi8(out + column, static_cast<__mmask16>((1u << count) - 1), bytes);
#else
    for (int64_t lane = 0; lane < count; ++lane) out[column + lane] = static_cast<uint8_t>(integers[lane]);
#endif
  }
  for (column = width; column % 4; ++column) out[column] = 128;
}

static void quantise(const float* in, int64_t rows, int64_t width, int64_t stride, uint8_t* out, int64_t out_stride,
                     float* scales) {
  for (int64_t row = 0; row < rows; ++row)
    quantise_row(in + row * stride, width, out + row * out_stride, scales + row);
}

static inline Lanes part(const float* in, int64_t column, int64_t width) {
  return column + LANES <= width ? load(in + column) : load_some(in + column, width - column);
}

static inline void keep(float* out, Lanes value, int64_t column, int64_t width) {
  if (column + LANES <= width)
    save(out + column, value);
  else
    save_some(out + column, value, width - column);
}

static void norm(const NormWeights& weights, const float* in, int64_t rows, int64_t width, float* out, uint8_t* bytes,
                 int64_t byte_stride, float* scales) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = in + row * width;
    float* to = out + row * width;
    float mean = 0;
    if (weights.bias) {
      Lanes total = {};
      for (int64_t column = 0; column < width; column += LANES) total += part(from, column, width);
      mean = sum(total) / static_cast<float>(width);
    }
    Lanes squares = {};
    for (int64_t column = 0; column < width; column += LANES) {
      Lanes apart = part(from, column, width) - mean;
      if (column + LANES > width) {
        float held[REGARD_LANES];
        save(held, apart);
        apart = load_some(held, width - column);
      }
      squares += apart * apart;
    }
    float variance = sum(squares) / static_cast<float>(width);
    float inverse = 1.0f / __builtin_sqrtf(variance + weights.epsilon);
    for (int64_t column = 0; column < width; column += LANES) {
      Lanes value = (part(from, column, width) - mean) * inverse * part(weights.gain, column, width);
      if (weights.bias) value += part(weights.bias, column, width);
      keep(to, value, column, width);
    }
    if (bytes) quantise_row(to, width, bytes + row * byte_stride, scales + row);
  }
}

// One tile as floats, with its bias: [TILE][PANEL].
static inline void tile(const Rows& rows, const Weights& weights, int64_t panel, int64_t row, int64_t count,
                        float* values) {
  const float* bias = weights.bias + panel * PANEL;
  if (!weights.bytes) {
    float_tiles(count, rows.floats + row * rows.stride, rows.stride, weights.floats + panel * PANEL * weights.inputs,
                weights.inputs, values);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t column = 0; column < PANEL; column += LANES)
        save(values + r * PANEL + column, load(values + r * PANEL + column) + load(bias + column));
    return;
  }
  int64_t quads = (weights.inputs + 3) / 4;
  value_tiles(count, rows.bytes + row * rows.byte_stride, rows.byte_stride, weights.bytes + panel * quads * 4 * PANEL,
              quads, weights.shift + panel * PANEL, rows.scales + row, weights.scales + panel * PANEL, bias, values);
}

static void product(const Rows& rows, const Weights& weights, const Store& store) {
  alignas(64) float values[TILE * PANEL];
  for (int64_t panel = 0; panel * PANEL < weights.outputs; ++panel) {
    int64_t first = panel * PANEL;
    int64_t columns = weights.outputs - first < PANEL ? weights.outputs - first : PANEL;
    for (int64_t row = 0; row < rows.count; row += TILE) {
      int64_t count = rows.count - row < TILE ? rows.count - row : TILE;
      tile(rows, weights, panel, row, count, values);
      for (int64_t r = 0; r < count; ++r) {
        float* out = store.out + (row + r) * store.stride + first;
        const float* residual = store.residual ? store.residual + (row + r) * store.residual_stride + first : nullptr;
        for (int64_t column = 0; column < columns; column += LANES) {
          Lanes value = load(values + r * PANEL + column);
          if (store.activation != Activation::none) value = activated(value, store.activation);
          if (residual) value += part(residual, column, columns);
          keep(out, value, column, columns);
        }
      }
    }
  }
}

static void product_int32(const Rows& rows, const Weights& weights, int32_t* out) {
  alignas(64) int32_t sums[TILE * PANEL];
  int64_t quads = (weights.inputs + 3) / 4;
  for (int64_t panel = 0; panel * PANEL < weights.outputs; ++panel)
    for (int64_t row = 0; row < rows.count; row += TILE) {
      int64_t count = rows.count - row < TILE ? rows.count - row : TILE;
      byte_tiles(count, rows.bytes + row * rows.byte_stride, rows.byte_stride,
                 weights.bytes + panel * quads * 4 * PANEL, quads, weights.shift + panel * PANEL, sums);
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
  for (int64_t column = 0; column < PANEL; ++column) {
    if (!(logits[column] > least)) continue;
    insert(row, candidates, logits[column], static_cast<int32_t>(first + column));
    if (row->found == candidates) least = row->best[candidates - 1].value;
  }
}

// The logits of one panel go into the sum of exponentials and the best so far. Most panels hold nothing above the least
// of the best, and then nothing above the largest either.
static inline void scan(const float* logits, int64_t first, int32_t candidates, Projected* row) {
  Lanes most = load(logits);
  for (int64_t column = LANES; column < PANEL; column += LANES) most = larger(load(logits + column), most);
  float least = row->found < candidates ? -__builtin_inff() : row->best[candidates - 1].value;
  if (any_above(most, least)) promote(logits, largest(most), first, candidates, row);
  float top = row->largest;
  for (int64_t part = 0; part < 16; part += LANES) {
    Lanes total = load(row->sums + part);
    for (int64_t column = part; column < PANEL; column += 16) total += shrinking(load(logits + column) - top);
    save(row->sums + part, total);
  }
}

static void project(const Rows& rows, const Weights& weights, int32_t candidates, Projected* projected) {
  alignas(64) float values[TILE * PANEL];
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
