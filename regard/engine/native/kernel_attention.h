// Attention of few queries to few items, and the elementwise parts of recurrent cells.

static inline int64_t whole_lanes(int64_t items) { return (items + 15) / 16 * 16; }

// Scores become weights; returns nothing for no items.
static inline void softmax(float* scores, int64_t items) {
  int64_t padded = (items + LANES - 1) / LANES * LANES;
  for (int64_t item = items; item < padded; ++item) scores[item] = -__builtin_inff();
  Lanes most = load(scores);
  for (int64_t item = LANES; item < padded; item += LANES) most = larger(load(scores + item), most);
  float top = largest(most);
  Lanes total = {};
  for (int64_t item = 0; item < padded; item += LANES) {
    Lanes value = exponential(load(scores + item) - top);
    total += value;
    save(scores + item, value);
  }
  float inverse = 1.0f / sum(total);
  for (int64_t item = 0; item < padded; item += LANES) save(scores + item, load(scores + item) * inverse);
}

template <int R>
static inline void scores_of(const Attend& a, int64_t head, int64_t row) {
  int64_t padded = whole_lanes(a.items);
  const float* keys = a.keys + head * a.key_heads / a.heads * a.width * padded;
  const float* query = a.queries + row * a.query_stride + head * a.width;
  for (int64_t item = 0; item < a.items; item += LANES) {
    Lanes total[R] = {};
    for (int64_t input = 0; input < a.width; ++input) {
      Lanes key = load(keys + input * padded + item);
      for (int r = 0; r < R; ++r) total[r] += query[r * a.query_stride + input] * key;
    }
    for (int r = 0; r < R; ++r) {
      Lanes score = total[r] * a.scale;
      if (a.bias) score += load(a.bias + head * a.bias_stride + a.bias_middle + item - (row + r));
      save(a.scores + r * padded + item, score);
    }
  }
}

static inline void mix(const float* weights, int64_t items, const float* values, int64_t stride, int64_t width,
                       float* out) {
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes total = {};
    if (column + LANES <= width)
      for (int64_t item = 0; item < items; ++item) total += weights[item] * load(values + item * stride + column);
    else
      for (int64_t item = 0; item < items; ++item)
        total += weights[item] * load_some(values + item * stride + column, width - column);
    keep(out, total, column, width);
  }
}

static void attend(const Attend& a) {
  int64_t padded = whole_lanes(a.items);
  for (int64_t head = 0; head < a.heads; ++head)
    for (int64_t row = 0; row < a.rows; row += 4) {
      int64_t count = a.rows - row < 4 ? a.rows - row : 4;
      switch (count) {
        case 1: scores_of<1>(a, head, row); break;
        case 2: scores_of<2>(a, head, row); break;
        case 3: scores_of<3>(a, head, row); break;
        default: scores_of<4>(a, head, row);
      }
      for (int64_t r = 0; r < count; ++r) {
        float* weights = a.scores + r * padded;
        softmax(weights, a.items);
        mix(weights, a.items, a.values + head * a.key_heads / a.heads * a.value_width, a.value_stride, a.value_width,
            a.out + (row + r) * a.out_stride + head * a.value_width);
        if (a.weights)
          for (int64_t item = 0; item < a.items; ++item)
            a.weights[(row + r) * a.items + item] += weights[item] / static_cast<float>(a.heads);
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

static void attend_past(const AttendPast& a) {
  for (int64_t head = 0; head < a.heads; ++head) {
    int64_t key_head = head * a.key_heads / a.heads;
    const float* query = a.query + head * a.width;
    const float* bias = a.bias ? a.bias + head * a.bias_stride + a.bias_middle - (a.count - 1) : nullptr;
    for (int64_t item = 0; item < a.count; ++item) {
      float score = dot(query, a.items[item] + key_head * a.width, a.width) * a.scale;
      a.scores[item] = bias ? score + bias[item] : score;
    }
    softmax(a.scores, a.count);
    int64_t values = (a.key_heads + key_head) * a.width;
    for (int64_t column = 0; column < a.width; column += LANES) {
      Lanes total = {};
      for (int64_t item = 0; item < a.count; ++item)
        total += a.scores[item] * part(a.items[item] + values, column, a.width);
      keep(a.out + head * a.width, total, column, a.width);
    }
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
