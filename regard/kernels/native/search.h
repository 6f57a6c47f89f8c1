// What a recurrent decoder does to each row under search: the gates of an LSTM, and additive attention.

static inline Lanes inverse(Lanes x) {
#if defined(REGARD_AVX512)
  Lanes near = (Lanes)_mm512_rcp14_ps((__m512)x);
  return near * (2.0f - x * near);
#else
  return 1.0f / x;
#endif
}

// 1 / (1 + exp(-x)); NaN stays NaN, here and below.
static inline Lanes sigmoid(Lanes x) {
  x = -x;
  x = x > all(80.0f) ? all(80.0f) : x;  // beyond it nothing changes, and an inverse would be too small
  return inverse(1.0f + exponential(x));
}

// tanh(x), within 2e-7.
static inline Lanes tangent(Lanes x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

static void gated(const Gated& asked, int64_t from, int64_t to) {
  int64_t width = asked.width;
  for (int64_t row = from; row < to; ++row) {
    const float* base = asked.bases + asked.base_rows[row] * 4 * width;
    const float* carried = asked.carried + (asked.carried_rows ? asked.carried_rows[row] : row) * 4 * width;
    for (int64_t column = 0; column < width; column += LANES) {
      int64_t count = smaller(LANES, width - column), own = row * width + column;
      auto total = [&](int64_t block) {
        int64_t place = block * width + column;
        return take(base + place, count) + take(carried + place, count);
      };
      Lanes kept = sigmoid(total(1)) * take(asked.memory + own, count) + sigmoid(total(0)) * tangent(total(2));
      put(asked.kept + own, kept, count);
      put(asked.hidden + own, sigmoid(total(3)) * tangent(kept), count);
    }
  }
}

// Σ v tanh(query + key).
static inline float energy_of(const Compared& asked, const float* query, const float* key) {
  int64_t width = asked.width, column = 0;
  Lanes total[2] = {};
  for (; column + 2 * LANES <= width; column += 2 * LANES)
    for (int64_t part = 0; part < 2; ++part) {
      int64_t place = column + part * LANES;
      total[part] += load(asked.energy + place) * tangent(load(query + place) + load(key + place));
    }
  for (; column < width; column += LANES) {
    int64_t count = smaller(LANES, width - column);  // what is missing of `energy` is 0
    total[0] += take(asked.energy + column, count) * tangent(take(query + column, count) + take(key + column, count));
  }
  return sum(total[0] + total[1]);
}

// Weights from scores, those of what is hidden 0.
static inline void weigh(float* scores, const uint8_t* mask, int64_t keys) {
  float top = -__builtin_inff();
  for (int64_t key = 0; key < keys; ++key)
    if ((!mask || mask[key]) && !(scores[key] <= top)) top = scores[key];  // NaN comes through
  float whole = 0;
  for (int64_t key = 0; key < keys; ++key) {
    scores[key] = !mask || mask[key] ? __builtin_expf(scores[key] - top) : 0.0f;
    whole += scores[key];
  }
  float share = whole == 0.0f ? 0.0f : 1.0f / whole;
  for (int64_t key = 0; key < keys; ++key) scores[key] *= share;
}

// Of sentences: each query looks at the keys of its own that it may see.
static void compared(const Compared& asked, int64_t from, int64_t to) {
  for (int64_t row = from; row < to; ++row) {
    const float* key = asked.key + row * asked.keys * asked.width;
    const float* value = asked.value + row * asked.keys * asked.value_width;
    const uint8_t* mask = asked.mask ? asked.mask + row * asked.mask_stride : nullptr;
    for (int64_t number = row * asked.queries; number < (row + 1) * asked.queries; ++number) {
      float* weights = asked.weights + number * asked.keys;
      float* context = asked.context + number * asked.value_width;
      for (int64_t one = 0; one < asked.keys; ++one)
        if (!mask || mask[one]) weights[one] = energy_of(asked, asked.query + number * asked.width, key + one * asked.width);
      weigh(weights, mask, asked.keys);
      for (int64_t column = 0; column < asked.value_width; column += LANES) {
        int64_t count = smaller(LANES, asked.value_width - column);
        Lanes total = {};
        for (int64_t one = 0; one < asked.keys; ++one)
          if (!mask || mask[one]) total += weights[one] * take(value + one * asked.value_width + column, count);
        put(context + column, total, count);
      }
    }
  }
}
