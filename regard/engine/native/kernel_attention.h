// Attention of few queries to few items, and the elementwise parts of recurrent cells.

static inline int64_t whole_lanes(int64_t items) { return (items + 15) / 16 * 16; }

static constexpr int TOGETHER = 6;  // rows that are attended for together

static inline IntegerLanes counted() {
  IntegerLanes lanes;
  for (int lane = 0; lane < REGARD_LANES; ++lane) lanes[lane] = lane;
  return lanes;
}

// Scores become weights; room behind the last is used.
static inline void softmax(float* scores, int64_t items) {
  int64_t last = (items - 1) / LANES * LANES;
  IntegerLanes real = counted() < static_cast<int32_t>(items - last);
  save(scores + last, real ? load(scores + last) : all(-__builtin_inff()));
  Lanes most = load(scores);
  for (int64_t item = LANES; item < items; item += LANES) most = larger(load(scores + item), most);
  float top = largest(most);
  Lanes total = {};
  for (int64_t item = 0; item < items; item += LANES) {
    Lanes value = shrinking(load(scores + item) - top);
    total += value;
    save(scores + item, value);
  }
  float inverse = 1.0f / sum(total);
  for (int64_t item = 0; item < items; item += LANES) save(scores + item, load(scores + item) * inverse);
}

// Two sums for each score, over even and odd inputs: one alone would wait for itself. How many rows there are does not
// change how a score is summed.
template <int R>
static inline void scores_of(const Attend& a, int64_t head, int64_t row) {
  int64_t padded = whole_lanes(a.items);
  const float* keys = a.keys + head * a.key_heads / a.heads * a.width * padded;
  const float* query = a.queries + row * a.query_stride + head * a.width;
  for (int64_t item = 0; item < a.items; item += LANES) {
    Lanes even[R] = {}, odd[R] = {};
    int64_t input = 0;
    for (; input + 2 <= a.width; input += 2) {
      Lanes first = load(keys + input * padded + item), second = load(keys + (input + 1) * padded + item);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        even[r] += query[r * a.query_stride + input] * first;
        odd[r] += query[r * a.query_stride + input + 1] * second;
      }
    }
    if (input < a.width)
      for (int r = 0; r < R; ++r) even[r] += query[r * a.query_stride + input] * load(keys + input * padded + item);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      Lanes score = (even[r] + odd[r]) * a.scale;
      if (a.bias) score += load(a.bias + head * a.bias_stride + a.bias_middle + item - (row + r));
      save(a.scores + r * padded + item, score);
    }
  }
}

// Values of R rows times their weights.
template <int R>
static inline void mix_rows(const Attend& a, int64_t head, int64_t row) {
  int64_t padded = whole_lanes(a.items), width = a.value_width, column = 0;
  const float* values = a.values + head * a.key_heads / a.heads * width;
  float* out = a.out + row * a.out_stride + head * width;
  for (; column + 2 * LANES <= width; column += 2 * LANES) {
    Lanes first[R] = {}, second[R] = {};
    for (int64_t item = 0; item < a.items; ++item) {
      Lanes one = load(values + item * a.value_stride + column);
      Lanes other = load(values + item * a.value_stride + column + LANES);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        first[r] += a.scores[r * padded + item] * one;
        second[r] += a.scores[r * padded + item] * other;
      }
    }
    for (int r = 0; r < R; ++r) {
      save(out + r * a.out_stride + column, first[r]);
      save(out + r * a.out_stride + column + LANES, second[r]);
    }
  }
  for (; column < width; column += LANES) {
    Lanes total[R] = {};
    for (int64_t item = 0; item < a.items; ++item) {
      Lanes one = part(values + item * a.value_stride, column, width);
      for (int r = 0; r < R; ++r) total[r] += a.scores[r * padded + item] * one;
    }
    for (int r = 0; r < R; ++r) keep(out + r * a.out_stride, total[r], column, width);
  }
}

template <int R>
static inline void attend_rows(const Attend& a, int64_t head, int64_t row) {
  int64_t padded = whole_lanes(a.items);
  scores_of<R>(a, head, row);
  for (int r = 0; r < R; ++r) softmax(a.scores + r * padded, a.items);
  mix_rows<R>(a, head, row);
  if (!a.weights) return;
  for (int r = 0; r < R; ++r)
    for (int64_t item = 0; item < a.items; ++item)
      a.weights[(row + r) * a.items + item] += a.scores[r * padded + item] / static_cast<float>(a.heads);
}

static void attend(const Attend& a) {
  for (int64_t head = 0; head < a.heads; ++head)
    for (int64_t row = 0; row < a.rows; row += TOGETHER) switch (a.rows - row) {
        case 1: attend_rows<1>(a, head, row); break;
        case 2: attend_rows<2>(a, head, row); break;
        case 3: attend_rows<3>(a, head, row); break;
        case 4: attend_rows<4>(a, head, row); break;
        case 5: attend_rows<5>(a, head, row); break;
        default: attend_rows<TOGETHER>(a, head, row);
      }
}

static inline float dot(const float* one, const float* other, int64_t width) {
  Lanes total = {};
  int64_t column = 0;
  for (; column + LANES <= width; column += LANES) total += load(one + column) * load(other + column);
  if (column < width) total += load_some(one + column, width - column) * load_some(other + column, width - column);
  return sum(total);
}

#if defined(REGARD_AVX512)
// The four quarters of a vector added up.
static inline __m128 quarter(Lanes value) {
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)value), _mm512_extractf32x8_ps((__m512)value, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

// Products of one query with the keys of four items at once, so that four sums are finished together.
static inline void four_dots(const float* query, const float* const* items, int64_t skipped, int64_t width, float* out) {
  Lanes total[4] = {};
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes value = part(query, column, width);
    for (int item = 0; item < 4; ++item) total[item] += value * part(items[item] + skipped, column, width);
  }
  __m128 first = _mm_hadd_ps(quarter(total[0]), quarter(total[1]));
  __m128 second = _mm_hadd_ps(quarter(total[2]), quarter(total[3]));
  _mm_storeu_ps(out, _mm_hadd_ps(first, second));
}
#else
static inline void four_dots(const float* query, const float* const* items, int64_t skipped, int64_t width, float* out) {
  for (int item = 0; item < 4; ++item) out[item] = dot(query, items[item] + skipped, width);
}
#endif

// Values of the past times their weights, C vectors at once, even and odd items apart.
template <int C>
static inline void mix_past(const AttendPast& a, int64_t values, int64_t column, int64_t head) {
  Lanes even[C] = {}, odd[C] = {};
  int64_t item = 0;
  for (; item + 2 <= a.count; item += 2)
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      even[c] += a.scores[item] * part(a.items[item] + values, column + c * LANES, a.width);
      odd[c] += a.scores[item + 1] * part(a.items[item + 1] + values, column + c * LANES, a.width);
    }
  for (int c = 0; c < C; ++c) {
    if (item < a.count) even[c] += a.scores[item] * part(a.items[item] + values, column + c * LANES, a.width);
    keep(a.out + head * a.width, even[c] + odd[c], column + c * LANES, a.width);
  }
}

static void attend_past(const AttendPast& a) {
  for (int64_t head = 0; head < a.heads; ++head) {
    int64_t key_head = head * a.key_heads / a.heads;
    const float* query = a.query + head * a.width;
    int64_t item = 0;
    for (; item + 4 <= a.count; item += 4)
      four_dots(query, a.items + item, key_head * a.width, a.width, a.scores + item);
    for (; item < a.count; ++item) a.scores[item] = dot(query, a.items[item] + key_head * a.width, a.width);
    const float* bias = a.bias ? a.bias + head * a.bias_stride + a.bias_middle - (a.count - 1) : nullptr;
    for (item = 0; item < a.count; item += LANES) {
      Lanes score = load(a.scores + item) * a.scale;
      save(a.scores + item, bias ? score + load(bias + item) : score);
    }
    softmax(a.scores, a.count);
    int64_t values = (a.key_heads + key_head) * a.width, column = 0;
    for (; column + 2 * LANES <= a.width; column += 2 * LANES) mix_past<2>(a, values, column, head);
    for (; column < a.width; column += LANES) mix_past<1>(a, values, column, head);
  }
}

static inline void mix(const float* weights, int64_t items, const float* values, int64_t stride, int64_t width,
                       float* out) {
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes total = {};
    for (int64_t item = 0; item < items; ++item) total += weights[item] * part(values + item * stride, column, width);
    keep(out, total, column, width);
  }
}

static void attend_additive(const AttendAdditive& a) {
  for (int64_t head = 0; head < a.heads; ++head) {
    const float* query = a.query + head * a.width;
    const float* energy = a.energy + head * a.width;
    for (int64_t item = 0; item < a.items; ++item) {
      const float* key = a.keys + (item * a.heads + head) * a.width;
      Lanes total = {};
      for (int64_t column = 0; column < a.width; column += LANES)
        total += part(energy, column, a.width) *
                 hyperbolic_tangent(part(query, column, a.width) + part(key, column, a.width));
      a.scores[item] = sum(total);
    }
    softmax(a.scores, a.items);
    mix(a.scores, a.items, a.values + head * a.value_width, a.heads * a.value_width, a.value_width,
        a.out + head * a.value_width);
    if (a.weights)
      for (int64_t item = 0; item < a.items; ++item)
        a.weights[item] += a.scores[item] / static_cast<float>(a.heads);
  }
}

static void gate(const float* in, int64_t rows, int64_t width, Activation activation, float* out) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < width; column += LANES) {
      const float* from = in + row * 2 * width;
      Lanes value = activated(part(from, column, width), activation) * part(from + width, column, width);
      keep(out + row * width, value, column, width);
    }
}

static void activate(float* values, int64_t count, Activation activation) {
  for (int64_t column = 0; column < count; column += LANES)
    keep(values, activated(part(values, column, count), activation), column, count);
}

static void turn(float* row, int64_t heads, int64_t width, const float* turns) {
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t pair = 0; pair < width / 2; ++pair) {
      float* two = row + head * width + 2 * pair;
      float even = two[0], odd = two[1], cosine = turns[pair], sine = turns[width / 2 + pair];
      two[0] = even * cosine - odd * sine;
      two[1] = even * sine + odd * cosine;
    }
}

static void lstm(const float* total, const float* memory, int64_t width, float* state, float* new_memory) {
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes into = logistic(part(total, column, width));
    Lanes forget = logistic(part(total + width, column, width));
    Lanes candidate = hyperbolic_tangent(part(total + 2 * width, column, width));
    Lanes out = logistic(part(total + 3 * width, column, width));
    Lanes held = forget * part(memory, column, width) + into * candidate;
    keep(new_memory, held, column, width);
    keep(state, out * hyperbolic_tangent(held), column, width);
  }
}

static void gru(const float* products, const float* recurrent, const float* state, int64_t width, float* out) {
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes reset = logistic(part(products, column, width) + part(recurrent, column, width));
    Lanes update = logistic(part(products + width, column, width) + part(recurrent + width, column, width));
    Lanes candidate = hyperbolic_tangent(part(products + 2 * width, column, width) +
                                         reset * part(recurrent + 2 * width, column, width));
    keep(out, candidate + update * (part(state, column, width) - candidate), column, width);
  }
}

static void gru_cho_gates(const float* total, const float* state, int64_t width, float* reset, float* update) {
  for (int64_t column = 0; column < width; column += LANES) {
    keep(reset, logistic(part(total, column, width)) * part(state, column, width), column, width);
    keep(update, logistic(part(total + width, column, width)), column, width);
  }
}

static void gru_cho_blend(const float* total, const float* state, const float* update, int64_t width, float* out) {
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes candidate = hyperbolic_tangent(part(total, column, width)), old = part(state, column, width);
    keep(out, old + part(update, column, width) * (candidate - old), column, width);
  }
}
