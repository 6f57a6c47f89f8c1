// What a recurrent decoder does to each row under search: the gates of an LSTM, and additive attention.

// 1 / (1 + 2^x); NaN stays NaN.
static inline Lanes share_of(Lanes x) {
#if defined(REGARD_AVX512)
  __m512 power = _mm512_max_ps(_mm512_set1_ps(-100.0f), _mm512_min_ps(_mm512_set1_ps(100.0f), (__m512)x));
  __m512 whole = _mm512_roundscale_ps(power, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  Lanes rest = (Lanes)power - (Lanes)whole;
  Lanes p = all(1.33335581e-3f);  // 2^rest, relative error 2e-7
  p = p * rest + 9.61812910e-3f;
  p = p * rest + 5.55041087e-2f;
  p = p * rest + 2.40226507e-1f;
  p = p * rest + 6.93147181e-1f;
  p = p * rest + 1.0f;
  Lanes total = (Lanes)_mm512_scalef_ps((__m512)p, whole) + 1.0f;
  Lanes near = (Lanes)_mm512_rcp14_ps((__m512)total);
  return near * (2.0f - total * near);
#else
  x = x * 0.693147181f;
  x = x > all(80.0f) ? all(80.0f) : x;  // beyond it nothing changes
  return 1.0f / (1.0f + exponential(x));
#endif
}
static inline Lanes sigmoid(Lanes x) { return share_of(x * -1.44269504f); }
static inline Lanes tangent(Lanes x) { return 1.0f - 2.0f * share_of(x * 2.88539008f); }  // within 3e-7

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

// The list of a sentence, best first, takes a continuation that is better than its last one.
static inline void enlist(const Chosen& asked, int64_t sentence, double value, int64_t row, int64_t token) {
  int64_t first = sentence * asked.count, place = first + asked.count - 1;
  if (!(value > asked.values[place])) return;
  int64_t limit = asked.forbids - !asked.early[sentence];
  for (int64_t one = 0; one < limit; ++one)
    if (asked.forbidden[one] == token) return;
  for (; place > first && asked.values[place - 1] < value; --place) {
    asked.values[place] = asked.values[place - 1];
    asked.rows[place] = asked.rows[place - 1];
    asked.tokens[place] = asked.tokens[place - 1];
  }
  asked.values[place] = value;
  asked.rows[place] = row;
  asked.tokens[place] = token;
}

static void chosen(const Chosen& asked, int64_t from, int64_t to) {
  int64_t width = asked.width, beams = asked.beams, blocks = (width + BLOCK - 1) / BLOCK;
  for (int64_t sentence = from; sentence < to; ++sentence) {
    double* values = asked.values + sentence * asked.count;
    for (int64_t place = 0; place < asked.count; ++place) {
      values[place] = -__builtin_inf();
      asked.rows[sentence * asked.count + place] = asked.tokens[sentence * asked.count + place] = 0;
    }
    bool damaged = false;
    for (int64_t row = 0; row < beams; ++row) {
      const float* logits = asked.logits + (sentence * beams + row) * width;
      float shift = asked.normaliser[sentence * beams + row];
      double score = asked.scores[sentence * beams + row];
      damaged = damaged || shift - shift != 0.0f;  // no finite number
      auto look = [&](int64_t first, int64_t last) {
        for (int64_t token = first; token < last; ++token)
          enlist(asked, sentence, static_cast<double>(logits[token] - shift) + score, row, token);
      };
      const float* most = asked.largest + (sentence * beams + row) * blocks;
      for (int64_t block = 0; block < blocks; ++block)  // most lie below the last of the list as a whole
        if (static_cast<double>(most[block] - shift) + score > values[asked.count - 1])
          look(block * BLOCK, smaller(width, (block + 1) * BLOCK));
    }
    if (damaged) values[0] = __builtin_nan("");
  }
}

// A row is read twice while it is in the nearest cache.
static void summed(const Summed& asked, int64_t from, int64_t to) {
  int64_t width = asked.width, blocks = (width + BLOCK - 1) / BLOCK;
  for (int64_t row = from; row < to; ++row) {
    const float* logits = asked.logits + row * width;
    float* most = asked.largest + row * blocks;
    float top = -__builtin_inff();
    for (int64_t block = 0; block < blocks; ++block) {
      int64_t column = block * BLOCK;
      float here = logits[column];
      if (column + BLOCK <= width) {
        Lanes found = load(logits + column);
        for (int64_t part = LANES; part < BLOCK; part += LANES) found = larger(load(logits + column + part), found);
        here = largest(found);
      } else {
        for (; column < width; ++column) here = logits[column] > here ? logits[column] : here;
      }
      most[block] = here;
      top = here > top ? here : top;
    }
    Lanes total[2] = {};
    int64_t column = 0;
    for (; column + 2 * LANES <= width; column += 2 * LANES)
      for (int64_t part = 0; part < 2; ++part) total[part] += exponential(load(logits + column + part * LANES) - top);
    for (; column < width; column += LANES) {
      int64_t count = smaller(LANES, width - column);
      total[0] += only(exponential(take(logits + column, count) - top), count);
    }
    asked.normaliser[row] = top + __builtin_logf(sum(total[0] + total[1]));
  }
}
