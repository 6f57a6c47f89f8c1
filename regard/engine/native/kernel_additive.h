// Attention with an additive score.

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
    if (a.weights) add_weights(a, head, a.scores, inverse, a.weights);
  }
}
