// Attention over short sequences: all that a head has to look at is brought together in the nearest cache, where a head
// is a few small products, and goes back from there. (Rows of all heads lie so far apart, and so evenly, that they would
// push each other out of it.) Scores are made again in the backward pass. They stand as (keys, queries), a vector of
// queries for each key: sums over keys then need nothing from within a vector.
//
// Shapes: Q queries, N keys, E width of a head (W with padding to whole vectors).

static constexpr int64_t AT_ONCE = 32;                // queries whose scores are there at once
static constexpr int ROWS = REGARD_LANES / 2;         // of a tile, whose sums fill half of the registers

// out (R, columns) = a b, or plus it: a(i, j) = a[i · down + j · along], b (inner, columns) by rows of a stride. Columns
// are whole vectors. Loops over a tile are unrolled before anything else is done to them, or sums would live in memory.
template <int TALL, int VECTORS>
static inline __attribute__((always_inline)) void tile(int64_t inner, const float* a, int64_t down, int64_t along,
                                                       const float* b, int64_t stride, float* out, int64_t out_stride,
                                                       bool adds) {
  Lanes sums[TALL][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < TALL; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) sums[r][v] = adds ? load(out + r * out_stride + v * LANES) : Lanes{};
  for (int64_t j = 0; j < inner; ++j) {
    Lanes values[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) values[v] = load(b + j * stride + v * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < TALL; ++r) {
      Lanes factor = all(a[r * down + j * along]);
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) sums[r][v] += factor * values[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < TALL; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) save(out + r * out_stride + v * LANES, sums[r][v]);
}

template <int TALL>
static inline void strip(int64_t inner, int64_t columns, const float* a, int64_t down, int64_t along, const float* b,
                         int64_t stride, float* out, int64_t out_stride, bool adds) {
  int64_t column = 0;
  for (; column + 2 * LANES <= columns; column += 2 * LANES)
    tile<TALL, 2>(inner, a, down, along, b + column, stride, out + column, out_stride, adds);
  if (column < columns) tile<TALL, 1>(inner, a, down, along, b + column, stride, out + column, out_stride, adds);
}

static void multiply(int64_t rows, int64_t inner, int64_t columns, const float* a, int64_t down, int64_t along,
                     const float* b, int64_t stride, float* out, int64_t out_stride, bool adds) {
  int64_t row = 0;
  for (; row + ROWS <= rows; row += ROWS)
    strip<ROWS>(inner, columns, a + row * down, down, along, b, stride, out + row * out_stride, out_stride, adds);
  for (; row + 4 <= rows; row += 4)
    strip<4>(inner, columns, a + row * down, down, along, b, stride, out + row * out_stride, out_stride, adds);
  for (; row + 2 <= rows; row += 2)
    strip<2>(inner, columns, a + row * down, down, along, b, stride, out + row * out_stride, out_stride, adds);
  if (row < rows)
    strip<1>(inner, columns, a + row * down, down, along, b, stride, out + row * out_stride, out_stride, adds);
}

// (N, E) by rows of a stride, plus a bias or null → (N, W), times a factor, with zeros; and back without them, where
// the sums over items may be added to `sums`.
template <class Number>
static inline void bring(const Number* from, const float* bias, int64_t items, int64_t stride, int64_t width,
                         float factor, float* to) {
  for (int64_t e = 0; e < width; e += LANES) {
    int64_t count = smaller(LANES, width - e);
    Lanes shift = bias ? take(bias + e, count) : Lanes{};
    for (int64_t item = 0; item < items; ++item)
      save(to + item * padded(width) + e, (take(from + item * stride + e, count) + shift) * factor);
  }
}
template <class Number>
static inline void take_back(const float* from, int64_t items, int64_t stride, int64_t width, float factor, Number* to,
                             float* sums) {
  for (int64_t e = 0; e < width; e += LANES) {
    int64_t count = smaller(LANES, width - e);
    Lanes total = {};
    for (int64_t item = 0; item < items; ++item) {
      Lanes value = load(from + item * padded(width) + e) * factor;
      put(to + item * stride + e, value, count);
      total += value;
    }
    if (sums) add_to(sums + e, total, count);
  }
}

static inline const float* from_column(const float* bias, int64_t column) { return bias ? bias + column : nullptr; }
static inline float* from_column(float* sums, int64_t row, int64_t width, int64_t column) {
  return sums ? sums + row * width + column : nullptr;
}

// (N, W) → (E, AT_ONCE), with zeros up to a whole vector.
static void transpose(const float* from, int64_t items, int64_t width, float* to) {
  for (int64_t item = 0; item < items; item += LANES)
    for (int64_t e = 0; e < width; e += LANES) {
      Lanes square[REGARD_LANES];
#pragma GCC unroll 16
      for (int64_t row = 0; row < LANES; ++row)
        square[row] = item + row < items ? load(from + (item + row) * padded(width) + e) : Lanes{};
      turn_square(square);
      int64_t columns = smaller(LANES, width - e);
      for (int64_t column = 0; column < columns; ++column) save(to + (e + column) * AT_ONCE + item, square[column]);
    }
}

// Lets a piece of what is needed next be fetched meanwhile: the `part`th of `parts`.
template <class Number>
static inline void fetch(const Number* from, int64_t count, int64_t part, int64_t parts) {
  constexpr int64_t line = 64 / sizeof(Number);
  for (int64_t index = count * part / parts; index < count * (part + 1) / parts; index += line)
    __builtin_prefetch(from + index);
}

// The scores of a vector of queries, from the numbered one on, with a key: -∞ where it may not be looked at.
static inline Lanes seen(const Attention& asked, const float* permitted, const float* scores, int64_t query,
                         int64_t key) {
  Lanes score = load(scores + key * AT_ONCE) + permitted[key];
  if (!asked.causal || key <= query) return score;
  Integers number = reinterpret_cast<Integers>(counting()) + static_cast<int32_t>(query);
  return number < static_cast<int32_t>(key) ? all(-__builtin_inff()) : score;
}

// What lets the weights of queries be made again: their largest scores, and 1 / Σ exp(score - largest).
struct Softmax {
  float *largest, *inverse;
  Softmax(const Attention& asked, int64_t row, int64_t head, int64_t query)
      : largest(asked.softmax + (row * asked.heads + head) * 2 * asked.queries + query),
        inverse(largest + asked.queries) {}
  Softmax from(int64_t query) const {
    Softmax other = *this;
    other.largest += query, other.inverse += query;
    return other;
  }
};

// Scores of `count` queries become weights.
static inline void weigh(const Attention& asked, const float* permitted, int64_t query, int64_t count, int64_t keys,
                         float* scores, Softmax softmax) {
  for (int64_t q = 0; q < count; q += LANES, scores += LANES) {
    Lanes most = all(-__builtin_inff());
    for (int64_t key = 0; key < keys; ++key) {
      Lanes score = seen(asked, permitted, scores, query + q, key);
      save(scores + key * AT_ONCE, score);
      most = larger(score, most);
    }
    most = most == -__builtin_inff() ? Lanes{} : most;
    Lanes total = {};
    for (int64_t key = 0; key < keys; ++key) {
      Lanes weight = exponential(load(scores + key * AT_ONCE) - most);
      save(scores + key * AT_ONCE, weight);
      total += weight;
    }
    Lanes inverse = total == 0.0f ? Lanes{} : 1.0f / total;
    for (int64_t key = 0; key < keys; ++key)
      save(scores + key * AT_ONCE, load(scores + key * AT_ONCE) * inverse);
    put(softmax.largest + q, most, smaller(LANES, count - q));
    put(softmax.inverse + q, inverse, smaller(LANES, count - q));
  }
}

// How many keys there are up to the last one that may be looked at; what is added to the scores with each, 0 or -∞.
static int64_t allow(const Attention& asked, int64_t row, float* permitted) {
  int64_t last = 0;
  for (int64_t key = 0; key < asked.keys; ++key) {
    bool open = !asked.mask || asked.mask[row * asked.mask_stride + key];
    permitted[key] = open ? 0.0f : -__builtin_inff();
    if (open) last = key + 1;
  }
  return last;
}

// Where a thread works.
struct Room {
  int64_t width;  // with padding
  float *permitted, *turned, *turned_gradient, *key, *value, *of_key, *of_value;
  float *query, *gradient, *made, *scores, *errors;

  static int64_t apart(int64_t count) { return (count + 15) / 16 * 16; }  // lines of a cache

  Room(const Attention& asked, float* at) : width(padded(asked.width)) {
    int64_t keys = asked.keys;
    auto next = [&](int64_t count) { return (at += apart(count)) - apart(count); };
    turned = next(AT_ONCE * asked.width), turned_gradient = next(AT_ONCE * asked.width);
    key = next(keys * width), value = next(keys * width), of_key = next(keys * width), of_value = next(keys * width);
    query = next(AT_ONCE * width), gradient = next(AT_ONCE * width), made = next(AT_ONCE * width);
    scores = next(keys * AT_ONCE), errors = next(keys * AT_ONCE);
    permitted = next(keys);
  }
};

static int64_t attention_room(const Attention& asked) {
  int64_t keys = asked.keys, width = padded(asked.width);
  return 2 * Room::apart(AT_ONCE * asked.width) + 4 * Room::apart(keys * width) + 3 * Room::apart(AT_ONCE * width) +
         2 * Room::apart(keys * AT_ONCE) + Room::apart(keys);
}

// How many of the keys any of `count` queries can see.
static inline int64_t visible(const Attention& asked, int64_t open, int64_t query, int64_t count) {
  return asked.causal ? smaller(open, query + count) : open;
}

// The numbers of one pass, where they lie.
template <class Number>
struct Given {
  const Number *query, *key, *gradient;
  Number *context, *of_query, *of_key;
  explicit Given(const Attention& asked)
      : query(static_cast<const Number*>(asked.query)),
        key(static_cast<const Number*>(asked.key)),
        gradient(static_cast<const Number*>(asked.gradient)),
        context(static_cast<Number*>(asked.context)),
        of_query(static_cast<Number*>(asked.of_query)),
        of_key(static_cast<Number*>(asked.of_key)) {}
};

template <class Number>
static inline void fetch_next(const Attention& asked, const Given<Number>& given, int64_t row, int64_t shared) {
  if (row + 1 == asked.rows) return;
  int64_t keys = asked.keys * asked.key_stride, queries = asked.queries * asked.query_stride;
  fetch(given.key + (row + 1) * keys, keys, shared, asked.key_heads);
  if (asked.key_stride != asked.query_stride)  // otherwise all lie together
    fetch(given.query + (row + 1) * queries, queries, shared, asked.key_heads);
  int64_t gradients = asked.queries * asked.heads * asked.width;
  if (given.gradient) fetch(given.gradient + (row + 1) * gradients, gradients, shared, asked.key_heads);
}

// The columns of one head.
template <class Number>
static inline void bring_queries(const Attention& asked, const Given<Number>& given, int64_t item, int64_t count,
                                 int64_t column, float* to) {
  bring(given.query + item * asked.query_stride + column, from_column(asked.query_bias, column), count,
        asked.query_stride, asked.width, asked.scale, to);
}
template <class Number>
static inline void bring_keys(const Attention& asked, const Given<Number>& given, int64_t row, int64_t column,
                              float* to) {
  bring(given.key + row * asked.keys * asked.key_stride + column, from_column(asked.key_bias, column), asked.keys,
        asked.key_stride, asked.width, 1.0f, to);
}
template <class Number>
static inline void take_keys_back(const Attention& asked, const Given<Number>& given, const float* from, int64_t row,
                                  int64_t column) {
  int64_t place = row * asked.keys * asked.key_stride + column;
  float* sums = from_column(asked.key_sums, row, 2 * asked.key_heads * asked.width, column);
  for (int64_t e = 0; sums && e < asked.width; ++e) sums[e] = 0;
  take_back(from, asked.keys, asked.key_stride, asked.width, 1.0f, given.of_key + place, sums);
}

template <class Number>
static void attention_rows(const Attention& asked, int64_t from, int64_t to, float* at) {
  Given<Number> given(asked);
  int64_t width = asked.width, each = asked.heads / asked.key_heads;
  int64_t made_stride = asked.heads * width, values = asked.key_heads * width, open = 0;
  Room room(asked, at);
  for (int64_t pair = from; pair < to; ++pair) {
    int64_t row = pair / asked.key_heads, shared = pair % asked.key_heads;
    if (pair == from || shared == 0) open = allow(asked, row, room.permitted);
    bring_keys(asked, given, row, shared * width, room.key);
    bring_keys(asked, given, row, shared * width + values, room.value);
    fetch_next(asked, given, row, shared);
    for (int64_t one = shared * each; one < (shared + 1) * each; ++one)
      for (int64_t query = 0; query < asked.queries; query += AT_ONCE) {
        int64_t count = smaller(AT_ONCE, asked.queries - query), keys = visible(asked, open, query, count);
        int64_t item = row * asked.queries + query;
        bring_queries(asked, given, item, count, one * width, room.query);
        transpose(room.query, count, width, room.turned);
        multiply(keys, width, padded(count), room.key, room.width, 1, room.turned, AT_ONCE, room.scores, AT_ONCE, false);
        weigh(asked, room.permitted, query, count, keys, room.scores, Softmax(asked, row, one, query));
        multiply(count, keys, room.width, room.scores, 1, AT_ONCE, room.value, room.width, room.made, room.width, false);
        take_back(room.made, count, made_stride, width, 1.0f, given.context + item * made_stride + one * width, nullptr);
      }
  }
}

static void attention(const Attention& asked, int64_t from, int64_t to, float* at) {
  (asked.narrow ? attention_rows<Half> : attention_rows<float>)(asked, from, to, at);
}

// With weights p = softmax(scores) and values v: ∂v = pᵀ ∂c, ∂p = ∂c vᵀ, ∂scores = p ∘ (∂p - Σ p ∘ ∂p).
static inline void errors_of_scores(const Attention& asked, const Room& room, int64_t query, int64_t count,
                                    int64_t keys, Softmax softmax) {
  for (int64_t q = 0; q < count; q += LANES) {
    float *scores = room.scores + q, *errors = room.errors + q;
    Lanes most = take(softmax.largest + q, smaller(LANES, count - q));
    Lanes inverse = take(softmax.inverse + q, smaller(LANES, count - q)), mean = {};
    for (int64_t key = 0; key < keys; ++key) {
      Lanes weight = exponential(seen(asked, room.permitted, scores, query + q, key) - most) * inverse;
      save(scores + key * AT_ONCE, weight);
      mean += weight * load(errors + key * AT_ONCE);
    }
    for (int64_t key = 0; key < keys; ++key)
      save(errors + key * AT_ONCE, load(scores + key * AT_ONCE) * (load(errors + key * AT_ONCE) - mean));
  }
}

// With scores = scale · q kᵀ: ∂q = scale · ∂scores k, ∂k = ∂scoresᵀ (scale · q).
template <class Number>
static void attention_backward_rows(const Attention& asked, int64_t from, int64_t to, float* at) {
  Given<Number> given(asked);
  int64_t width = asked.width, each = asked.heads / asked.key_heads;
  int64_t made_stride = asked.heads * width, values = asked.key_heads * width, open = 0;
  Room room(asked, at);
  for (int64_t pair = from; pair < to; ++pair) {
    int64_t row = pair / asked.key_heads, shared = pair % asked.key_heads;
    if (pair == from || shared == 0) open = allow(asked, row, room.permitted);
    bring_keys(asked, given, row, shared * width, room.key);
    bring_keys(asked, given, row, shared * width + values, room.value);
    fetch_next(asked, given, row, shared);
    for (int64_t index = 0; index < asked.keys * room.width; index += LANES) {
      save(room.of_key + index, Lanes{});
      save(room.of_value + index, Lanes{});
    }
    for (int64_t one = shared * each; one < (shared + 1) * each; ++one) {
      float* sums = from_column(asked.query_sums, row, made_stride, one * width);
      for (int64_t column = 0; sums && column < width; ++column) sums[column] = 0;
      for (int64_t query = 0; query < asked.queries; query += AT_ONCE) {
        int64_t count = smaller(AT_ONCE, asked.queries - query), keys = visible(asked, open, query, count);
        int64_t item = row * asked.queries + query, w = room.width;
        bring_queries(asked, given, item, count, one * width, room.query);
        bring(given.gradient + item * made_stride + one * width, nullptr, count, made_stride, width, 1.0f,
              room.gradient);
        transpose(room.query, count, width, room.turned);
        transpose(room.gradient, count, width, room.turned_gradient);
        multiply(keys, width, padded(count), room.key, w, 1, room.turned, AT_ONCE, room.scores, AT_ONCE, false);
        multiply(keys, width, padded(count), room.value, w, 1, room.turned_gradient, AT_ONCE, room.errors, AT_ONCE,
                 false);
        errors_of_scores(asked, room, query, count, keys, Softmax(asked, row, one, query));
        multiply(keys, count, w, room.scores, AT_ONCE, 1, room.gradient, w, room.of_value, w, true);
        multiply(keys, count, w, room.errors, AT_ONCE, 1, room.query, w, room.of_key, w, true);
        multiply(count, keys, w, room.errors, 1, AT_ONCE, room.key, w, room.made, w, false);
        take_back(room.made, count, asked.query_stride, width, asked.scale,
                  given.of_query + item * asked.query_stride + one * width, sums);
      }
    }
    take_keys_back(asked, given, room.of_key, row, shared * width);
    take_keys_back(asked, given, room.of_value, row, shared * width + values);
  }
}

static void attention_backward(const Attention& asked, int64_t from, int64_t to, float* at) {
  (asked.narrow ? attention_backward_rows<Half> : attention_backward_rows<float>)(asked, from, to, at);
}
