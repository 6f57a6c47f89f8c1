// Attention of few queries to few items, and the elementwise parts of recurrent cells.

static inline int64_t whole_lanes(int64_t items) { return (items + 15) / 16 * 16; }

static constexpr int TOGETHER = 6;  // rows that are attended for together

static inline IntegerLanes counted() {
  IntegerLanes lanes;
  for (int lane = 0; lane < REGARD_LANES; ++lane) lanes[lane] = lane;
  return lanes;
}

// exp(score - largest) in the place of scores; what is to be multiplied to make weights of them. Behind the last score
// stands -inf up to a whole vector. Weights are divided by their sum only when values are mixed: nothing waits for it.
static inline float exponentials(float* scores, int64_t items) {
  Lanes most = load(scores);
  for (int64_t item = LANES; item < items; item += LANES) most = larger(load(scores + item), most);
  float top = largest(most);
  Lanes total = {};
  for (int64_t item = 0; item < items; item += LANES) {
    Lanes value = shrinking(load(scores + item) - top);
    total += value;
    save(scores + item, value);
  }
  return 1.0f / sum(total);
}

// Scores of the items from `item`, and -inf behind the last of them.
static inline Lanes real_scores(Lanes scores, int64_t item, int64_t items) {
  if (item + LANES <= items) return scores;
  IntegerLanes real = counted() < static_cast<int32_t>(items - item);
  return real ? scores : all(-__builtin_inff());
}

// Two sums for each score, over even and odd inputs: one alone would wait for itself. How many rows there are does not
// change how a score is summed.
template <int R>
static inline void scores_of(const Attend& a, int64_t head, int64_t row, float* scores) {
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
      save(scores + r * padded + item, real_scores(score, item, a.items));
    }
  }
}

// Values of R rows times their weights.
template <int R>
static inline void mix_rows(const Attend& a, int64_t head, int64_t row, const float* scores, const float* inverse) {
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
        first[r] += scores[r * padded + item] * one;
        second[r] += scores[r * padded + item] * other;
      }
    }
    for (int r = 0; r < R; ++r) {
      save(out + r * a.out_stride + column, first[r] * inverse[r]);
      save(out + r * a.out_stride + column + LANES, second[r] * inverse[r]);
    }
  }
  for (; column < width; column += LANES) {
    Lanes total[R] = {};
    for (int64_t item = 0; item < a.items; ++item) {
      Lanes one = part(values + item * a.value_stride, column, width);
      for (int r = 0; r < R; ++r) total[r] += scores[r * padded + item] * one;
    }
    for (int r = 0; r < R; ++r) keep(out + r * a.out_stride, total[r] * inverse[r], column, width);
  }
}

// Some heads at a time, each step for all of them: while one waits for its sums, others work.
template <int R>
static inline void attend_rows(const Attend& a, int64_t first, int64_t end, int64_t row) {
  int64_t padded = whole_lanes(a.items);
  float inverse[HEADS_TOGETHER][R];
  for (int64_t head = first; head < end; ++head) scores_of<R>(a, head, row, a.scores + (head - first) * R * padded);
  for (int64_t head = first; head < end; ++head)
    for (int r = 0; r < R; ++r)
      inverse[head - first][r] = exponentials(a.scores + ((head - first) * R + r) * padded, a.items);
  for (int64_t head = first; head < end; ++head)
    mix_rows<R>(a, head, row, a.scores + (head - first) * R * padded, inverse[head - first]);
  if (!a.weights) return;
  for (int64_t head = first; head < end; ++head)
    for (int r = 0; r < R; ++r)
      for (int64_t item = 0; item < a.items; ++item)
        a.weights[(row + r) * a.items + item] += a.scores[((head - first) * R + r) * padded + item] *
                                                 inverse[head - first][r] / static_cast<float>(a.heads);
}

static void attend(const Attend& a) {
  for (int64_t head = 0; head < a.heads; head += HEADS_TOGETHER) {
    int64_t end = head + HEADS_TOGETHER < a.heads ? head + HEADS_TOGETHER : a.heads;
    for (int64_t row = 0; row < a.rows; row += TOGETHER) switch (a.rows - row) {
        case 1: attend_rows<1>(a, head, end, row); break;
        case 2: attend_rows<2>(a, head, end, row); break;
        case 3: attend_rows<3>(a, head, end, row); break;
        case 4: attend_rows<4>(a, head, end, row); break;
        case 5: attend_rows<5>(a, head, end, row); break;
        default: attend_rows<TOGETHER>(a, head, end, row);
      }
  }
}

static inline float dot(const float* one, const float* other, int64_t width) {
  Lanes total = {};
  int64_t column = 0;
  for (; column + LANES <= width; column += LANES) total += load(one + column) * load(other + column);
  if (column < width) total += load_some(one + column, width - column) * load_some(other + column, width - column);
  return sum(total);
}

// Products of one query with the keys of as many items as a vector has places. WHOLE: `width` is that of whole vectors.
#if defined(REGARD_AVX512)
template <bool WHOLE>
static inline __m128 four_dots(const float* query, const float* const* items, int64_t skipped, int64_t width) {
  Lanes total[4] = {};
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes value = part<WHOLE>(query, column, width);
#pragma GCC unroll 4
    for (int item = 0; item < 4; ++item) total[item] += value * part<WHOLE>(items[item] + skipped, column, width);
  }
  __m512 one = (__m512)total[0], two = (__m512)total[1], three = (__m512)total[2], four = (__m512)total[3];
  __m512d low = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(one, two), _mm512_unpackhi_ps(one, two)));
  __m512d high = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(three, four), _mm512_unpackhi_ps(three, four)));
  __m512 both = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(low, high)),
                              _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256(both), _mm512_extractf32x8_ps(both, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

template <bool WHOLE>
static inline Lanes dots(const float* query, const float* const* items, int64_t count, int64_t skipped, int64_t width) {
  __m512 result = _mm512_castps128_ps512(four_dots<WHOLE>(query, items, skipped, width));
  if (count > 4) result = _mm512_insertf32x4(result, four_dots<WHOLE>(query, items + 4, skipped, width), 1);
  if (count > 8) result = _mm512_insertf32x4(result, four_dots<WHOLE>(query, items + 8, skipped, width), 2);
  if (count > 12) result = _mm512_insertf32x4(result, four_dots<WHOLE>(query, items + 12, skipped, width), 3);
  return (Lanes)result;
}
#else
template <bool WHOLE>
static inline Lanes dots(const float* query, const float* const* items, int64_t count, int64_t skipped, int64_t width) {
  float held[REGARD_LANES] = {};
  for (int64_t item = 0; item < LANES && item < count; ++item) held[item] = dot(query, items[item] + skipped, width);
  return load(held);
}
#endif

// Values of the past times their weights, C vectors at once, even and odd items apart.
template <int C, bool WHOLE>
static inline void mix_past(const AttendPast& a, const float* scores, float inverse, int64_t values, int64_t column,
                            float* out) {
  Lanes even[C] = {}, odd[C] = {};
  int64_t item = 0;
  for (; item + 2 <= a.count; item += 2) {
    const float *first = a.items[item] + values, *second = a.items[item + 1] + values;
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      even[c] += scores[item] * part<WHOLE>(first, column + c * LANES, a.width);
      odd[c] += scores[item + 1] * part<WHOLE>(second, column + c * LANES, a.width);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    if (item < a.count) even[c] += scores[item] * part<WHOLE>(a.items[item] + values, column + c * LANES, a.width);
    keep<WHOLE>(out, (even[c] + odd[c]) * inverse, column + c * LANES, a.width);
  }
}

template <bool WHOLE>
static inline void past_scores(const AttendPast& a, int64_t head, float* scores) {
  int64_t key_head = head * a.key_heads / a.heads;
  const float* bias = a.bias ? a.bias + head * a.bias_stride + a.bias_middle - (a.count - 1) : nullptr;
  for (int64_t item = 0; item < a.count; item += LANES) {
    const float* query = a.query + head * a.width;
    Lanes score = dots<WHOLE>(query, a.items + item, a.count - item, key_head * a.width, a.width) * a.scale;
    if (bias) score += load(bias + item);
    save(scores + item, real_scores(score, item, a.count));
  }
}

template <bool WHOLE>
static inline void past_values(const AttendPast& a, int64_t head, const float* scores, float inverse) {
  int64_t values = (a.key_heads + head * a.key_heads / a.heads) * a.width, column = 0;
  float* out = a.out + head * a.width;
  for (; column + 4 * LANES <= a.width; column += 4 * LANES) mix_past<4, true>(a, scores, inverse, values, column, out);
  for (; column + 2 * LANES <= a.width; column += 2 * LANES) mix_past<2, true>(a, scores, inverse, values, column, out);
  for (; column < a.width; column += LANES) mix_past<1, WHOLE>(a, scores, inverse, values, column, out);
}

template <bool WHOLE>
static inline void attend_items(const AttendPast& a) {
  int64_t padded = whole_lanes(a.count);
  for (int64_t first = 0; first < a.heads; first += HEADS_TOGETHER) {
    int64_t end = first + HEADS_TOGETHER < a.heads ? first + HEADS_TOGETHER : a.heads;
    float inverse[HEADS_TOGETHER];
    for (int64_t head = first; head < end; ++head) past_scores<WHOLE>(a, head, a.scores + (head - first) * padded);
    for (int64_t head = first; head < end; ++head)
      inverse[head - first] = exponentials(a.scores + (head - first) * padded, a.count);
    for (int64_t head = first; head < end; ++head)
      past_values<WHOLE>(a, head, a.scores + (head - first) * padded, inverse[head - first]);
  }
}

static void attend_past(const AttendPast& a) {
  if (a.width % LANES)
    attend_items<false>(a);
  else
    attend_items<true>(a);
}

// C vectors of values times their weights.
template <int C, bool WHOLE>
static inline void mix_columns(const float* weights, int64_t items, float inverse, const float* values, int64_t stride,
                               int64_t column, int64_t width, float* out) {
  Lanes total[C] = {};
  for (int64_t item = 0; item < items; ++item)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c)
      total[c] += weights[item] * part<WHOLE>(values + item * stride, column + c * LANES, width);
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) keep<WHOLE>(out, total[c] * inverse, column + c * LANES, width);
}

static inline void mix(const float* weights, int64_t items, float inverse, const float* values, int64_t stride,
                       int64_t width, float* out) {
  int64_t column = 0;
  for (; column + 8 * LANES <= width; column += 8 * LANES)
    mix_columns<8, true>(weights, items, inverse, values, stride, column, width, out);
  for (; column < width; column += LANES)
    mix_columns<1, false>(weights, items, inverse, values, stride, column, width, out);
}

static bool powers(const float* in, int64_t count, float* out) {
  Lanes most = {}, poison = {};
  for (int64_t column = 0; column < count; column += LANES) {
    Lanes value = part(in, column, count);
    most = larger(positive(value), most);
    poison += value * 0.0f;
  }
  if (!(largest(most) <= 20.0f) || sum(poison) != 0.0f) return false;
  for (int64_t column = 0; column < count; column += LANES)
    keep(out, exponential(2.0f * part(in, column, count)), column, count);
  return true;
}

// Scores of R items from exponentials. The sum of the energy, which all scores have in common, is left out.
template <int R>
static inline void scores_of_powers(const AttendAdditive& a, int64_t head, int64_t item) {
  const float* energy = a.energy + head * a.width;
  const float* keys = a.powers + (item * a.heads + head) * a.width;
  Lanes total[R] = {};
  for (int64_t column = 0; column < a.width; column += LANES) {
    Lanes query = part(a.room, column, a.width), weight = part(energy, column, a.width);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      total[r] += weight * reciprocal(query * part(keys + r * a.heads * a.width, column, a.width) + 1.0f);
  }
  for (int r = 0; r < R; ++r) a.scores[item + r] = -2.0f * sum(total[r]);
}

static inline void scores_of_sums(const AttendAdditive& a, int64_t head, int64_t item) {
  const float* query = a.query + head * a.width;
  const float* energy = a.energy + head * a.width;
  const float* key = a.keys + (item * a.heads + head) * a.width;
  Lanes total = {};
  for (int64_t column = 0; column < a.width; column += LANES)
    total += part(energy, column, a.width) *
             hyperbolic_tangent(part(query, column, a.width) + part(key, column, a.width));
  a.scores[item] = sum(total);
}

static void attend_additive(const AttendAdditive& a) {
  for (int64_t head = 0; head < a.heads; ++head) {
    int64_t item = 0;
    if (a.powers && powers(a.query + head * a.width, a.width, a.room)) {
      for (; item + 4 <= a.items; item += 4) scores_of_powers<4>(a, head, item);
      for (; item < a.items; ++item) scores_of_powers<1>(a, head, item);
    }
    for (; item < a.items; ++item) scores_of_sums(a, head, item);
    for (item = a.items; item < whole_lanes(a.items); ++item) a.scores[item] = -__builtin_inff();
    float inverse = exponentials(a.scores, a.items);
    mix(a.scores, a.items, inverse, a.values + head * a.value_width, a.heads * a.value_width, a.value_width,
        a.out + head * a.value_width);
    if (a.weights)
      for (item = 0; item < a.items; ++item)
        a.weights[item] += a.scores[item] * inverse / static_cast<float>(a.heads);
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
    Lanes into = shrunk(part(total, column, width)), candidate = shrunk(2.0f * part(total + 2 * width, column, width));
    Lanes held = logistic(part(total + width, column, width)) * part(memory, column, width);
    held += (1.0f - candidate) * reciprocal((1.0f + into) * (1.0f + candidate));
    keep(new_memory, held, column, width);
    Lanes out = shrunk(part(total + 3 * width, column, width)), small = shrunk(2.0f * held);
    keep(state, (1.0f - small) * reciprocal((1.0f + out) * (1.0f + small)), column, width);
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
