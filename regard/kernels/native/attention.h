// Attention over short sequences: all that a head has to look at is brought together in the nearest cache, where a head
// is a few small products, and goes back from there. (Rows of all heads lie so far apart, and so evenly, that they would
// push each other out of it.) Scores are made again in the backward pass.
//
// Shapes: Q queries, N keys (P with padding to whole vectors), E width of a head (W with padding).

static constexpr int64_t AT_ONCE = 32;  // queries whose scores are there at once

// out (R, columns) = a b, or plus it: a(i, j) = a[i · down + j · along], b (inner, columns) by rows of a stride. Columns
// are whole vectors. Loops over a tile are unrolled before anything else is done to them, or sums would live in memory.
template <int ROWS, int VECTORS>
static inline __attribute__((always_inline)) void tile(int64_t inner, const float* a, int64_t down, int64_t along,
                                                       const float* b, int64_t stride, float* out, int64_t out_stride,
                                                       bool adds) {
  Lanes sums[ROWS][VECTORS];
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) sums[r][v] = adds ? load(out + r * out_stride + v * LANES) : Lanes{};
  for (int64_t j = 0; j < inner; ++j) {
    Lanes values[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) values[v] = load(b + j * stride + v * LANES);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      Lanes factor = all(a[r * down + j * along]);
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) sums[r][v] += factor * values[v];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) save(out + r * out_stride + v * LANES, sums[r][v]);
}

template <int ROWS>
static inline void strip(int64_t inner, int64_t columns, const float* a, int64_t down, int64_t along, const float* b,
                         int64_t stride, float* out, int64_t out_stride, bool adds) {
  int64_t column = 0;
  for (; column + 2 * LANES <= columns; column += 2 * LANES)
    tile<ROWS, 2>(inner, a, down, along, b + column, stride, out + column, out_stride, adds);
  if (column < columns) tile<ROWS, 1>(inner, a, down, along, b + column, stride, out + column, out_stride, adds);
}

static void multiply(int64_t rows, int64_t inner, int64_t columns, const float* a, int64_t down, int64_t along,
                     const float* b, int64_t stride, float* out, int64_t out_stride, bool adds) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4)
    strip<4>(inner, columns, a + row * down, down, along, b, stride, out + row * out_stride, out_stride, adds);
  for (; row + 2 <= rows; row += 2)
    strip<2>(inner, columns, a + row * down, down, along, b, stride, out + row * out_stride, out_stride, adds);
  if (row < rows)
    strip<1>(inner, columns, a + row * down, down, along, b, stride, out + row * out_stride, out_stride, adds);
}

// (N, E) by rows of a stride, plus a bias or null → (N, W), times a factor, with zeros; and back without them, where
// the sums over items may be added to `sums`.
static inline void bring(const float* from, const float* bias, int64_t items, int64_t stride, int64_t width,
                         float factor, float* to) {
  for (int64_t e = 0; e < width; e += LANES) {
    int64_t count = smaller(LANES, width - e);
    Lanes shift = bias ? take(bias + e, count) : Lanes{};
    for (int64_t item = 0; item < items; ++item)
      save(to + item * padded(width) + e, (take(from + item * stride + e, count) + shift) * factor);
  }
}
static inline void take_back(const float* from, int64_t items, int64_t stride, int64_t width, float factor, float* to,
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

// (N, W) → (E, P), with zeros.
static void transpose(const float* from, int64_t items, int64_t width, float* to, int64_t room) {
  for (int64_t item = 0; item < room; item += LANES)
    for (int64_t e = 0; e < width; e += LANES) {
      Lanes square[REGARD_LANES];
#pragma GCC unroll 16
      for (int64_t row = 0; row < LANES; ++row)
        square[row] = item + row < items ? load(from + (item + row) * padded(width) + e) : Lanes{};
      turn_square(square);
      int64_t columns = smaller(LANES, width - e);
      for (int64_t column = 0; column < columns; ++column) save(to + (e + column) * room + item, square[column]);
    }
}

// Lets a piece of what is needed next be fetched meanwhile: the `part`th of `parts`.
static inline void fetch(const float* from, int64_t count, int64_t part, int64_t parts) {
  for (int64_t index = count * part / parts; index < count * (part + 1) / parts; index += 16)
    __builtin_prefetch(from + index);
}

// What is added to a score: 0 or -∞.
static inline Lanes seen(const float* permitted, int64_t causal, int64_t query, int64_t key) {
  Lanes allowed = load(permitted + key);
  if (!causal || key + LANES <= query + 1) return allowed;
  Integers number = reinterpret_cast<Integers>(counting()) + static_cast<int32_t>(key);
  return number <= static_cast<int32_t>(query) ? allowed : all(-__builtin_inff());
}

// Scores of a query become weights; `softmax` gets what makes them the same again.
static inline void weigh(const Attention& asked, const float* permitted, int64_t query, int64_t columns, float* scores,
                         float* softmax) {
  Lanes most = all(-__builtin_inff());
  for (int64_t key = 0; key < columns; key += LANES) {
    Lanes score = load(scores + key) + seen(permitted, asked.causal, query, key);
    save(scores + key, score);
    most = larger(score, most);
  }
  float top = largest(most);
  if (top == -__builtin_inff()) top = 0;
  Lanes total = {};
  for (int64_t key = 0; key < columns; key += LANES) {
    Lanes weight = exponential(load(scores + key) - top);
    save(scores + key, weight);
    total += weight;
  }
  float whole = sum(total);
  float inverse = whole == 0 ? 0.0f : 1.0f / whole;
  for (int64_t key = 0; key < columns; key += LANES) save(scores + key, load(scores + key) * inverse);
  softmax[0] = top;
  softmax[1] = inverse;
}

static inline void weigh_again(const Attention& asked, const float* permitted, int64_t query, int64_t columns, float* scores,
                               const float* softmax) {
  for (int64_t key = 0; key < columns; key += LANES) {
    Lanes score = load(scores + key) + seen(permitted, asked.causal, query, key);
    save(scores + key, exponential(score - softmax[0]) * softmax[1]);
  }
}

static void allow(const Attention& asked, int64_t row, int64_t room, float* allowed) {
  for (int64_t key = 0; key < room; ++key) {
    bool open = key < asked.keys && (!asked.mask || asked.mask[row * asked.mask_stride + key]);
    allowed[key] = open ? 0.0f : -__builtin_inff();
  }
}

// Where a thread works.
struct Room {
  int64_t keys, width;  // with padding
  float *permitted, *turned, *turned_values, *key, *value, *of_key, *of_value;
  float *query, *gradient, *made, *scores, *errors;

  Room(const Attention& asked, float* at) : keys(padded(asked.keys)), width(padded(asked.width)) {
    auto next = [&](int64_t count) { return (at += count) - count; };
    permitted = next(keys);
    turned = next(keys * asked.width), turned_values = next(keys * asked.width);
    key = next(keys * width), value = next(keys * width), of_key = next(keys * width), of_value = next(keys * width);
    query = next(AT_ONCE * width), gradient = next(AT_ONCE * width), made = next(AT_ONCE * width);
    scores = next(AT_ONCE * keys), errors = next(AT_ONCE * keys);
  }
};

static int64_t attention_room(const Attention& asked) {
  int64_t keys = padded(asked.keys), width = padded(asked.width);
  return keys * (1 + 2 * asked.width + 4 * width + 2 * AT_ONCE) + 3 * AT_ONCE * width + LANES * 2;
}

// How many keys any of `count` queries can see, in whole vectors and as they are.
static inline int64_t visible(const Attention& asked, int64_t query, int64_t count) {
  return asked.causal ? smaller(asked.keys, query + count) : asked.keys;
}

static inline void fetch_next(const Attention& asked, int64_t row, int64_t shared) {
  if (row + 1 == asked.rows) return;
  int64_t keys = asked.keys * asked.key_stride, queries = asked.queries * asked.query_stride;
  fetch(asked.key + (row + 1) * keys, keys, shared, asked.key_heads);
  if (asked.key_stride != asked.query_stride)  // otherwise all lie together
    fetch(asked.query + (row + 1) * queries, queries, shared, asked.key_heads);
  int64_t gradients = asked.queries * asked.heads * asked.width;
  if (asked.gradient) fetch(asked.gradient + (row + 1) * gradients, gradients, shared, asked.key_heads);
}

// The columns of one head.
static inline void bring_queries(const Attention& asked, int64_t item, int64_t count, int64_t column, float* to) {
  bring(asked.query + item * asked.query_stride + column, from_column(asked.query_bias, column), count,
        asked.query_stride, asked.width, asked.scale, to);
}
static inline void bring_keys(const Attention& asked, int64_t row, int64_t column, float* to) {
  bring(asked.key + row * asked.keys * asked.key_stride + column, from_column(asked.key_bias, column), asked.keys,
        asked.key_stride, asked.width, 1.0f, to);
}
static inline void take_keys_back(const Attention& asked, const float* from, int64_t row, int64_t column) {
  int64_t place = row * asked.keys * asked.key_stride + column;
  float* sums = from_column(asked.key_sums, row, 2 * asked.key_heads * asked.width, column);
  for (int64_t e = 0; sums && e < asked.width; ++e) sums[e] = 0;
  take_back(from, asked.keys, asked.key_stride, asked.width, 1.0f, asked.of_key + place, sums);
}

static void attention(const Attention& asked, int64_t from, int64_t to, float* at) {
  int64_t width = asked.width, each = asked.heads / asked.key_heads;
  int64_t made_stride = asked.heads * width, values = asked.key_heads * width;
  Room room(asked, at);
  for (int64_t pair = from; pair < to; ++pair) {
    int64_t row = pair / asked.key_heads, shared = pair % asked.key_heads;
    if (pair == from || shared == 0) allow(asked, row, room.keys, room.permitted);
    bring_keys(asked, row, shared * width, room.key);
    bring_keys(asked, row, shared * width + values, room.value);
    transpose(room.key, asked.keys, width, room.turned, room.keys);
    fetch_next(asked, row, shared);
    for (int64_t one = shared * each; one < (shared + 1) * each; ++one)
      for (int64_t query = 0; query < asked.queries; query += AT_ONCE) {
        int64_t count = smaller(AT_ONCE, asked.queries - query), keys = visible(asked, query, count);
        int64_t columns = padded(keys), item = row * asked.queries + query;
        bring_queries(asked, item, count, one * width, room.query);
        multiply(count, width, columns, room.query, room.width, 1, room.turned, room.keys, room.scores, room.keys,
                 false);
        float* softmax = asked.softmax + ((row * asked.heads + one) * asked.queries + query) * 2;
        for (int64_t q = 0; q < count; ++q)
          weigh(asked, room.permitted, query + q, columns, room.scores + q * room.keys, softmax + 2 * q);
        multiply(count, keys, room.width, room.scores, room.keys, 1, room.value, room.width, room.made, room.width,
                 false);
        take_back(room.made, count, made_stride, width, 1.0f, asked.context + item * made_stride + one * width, nullptr);
      }
  }
}

// With weights p = softmax(scores) and values v: ∂v = pᵀ ∂c, ∂p = ∂c vᵀ, ∂scores = p ∘ (∂p - Σ p ∘ ∂p).
static void errors_of_scores(const Attention& asked, const Room& room, int64_t query, int64_t count, int64_t columns,
                             const float* softmax) {
  for (int64_t q = 0; q < count; ++q) {
    float* weights = room.scores + q * room.keys;
    float* error = room.errors + q * room.keys;
    weigh_again(asked, room.permitted, query + q, columns, weights, softmax + 2 * q);
    Lanes total = {};
    for (int64_t key = 0; key < columns; key += LANES) total += load(weights + key) * load(error + key);
    float mean = sum(total);
    for (int64_t key = 0; key < columns; key += LANES)
      save(error + key, load(weights + key) * (load(error + key) - mean));
  }
}

// With scores = scale · q kᵀ: ∂q = scale · ∂scores k, ∂k = ∂scoresᵀ (scale · q).
static void attention_backward(const Attention& asked, int64_t from, int64_t to, float* at) {
  int64_t width = asked.width, each = asked.heads / asked.key_heads;
  int64_t made_stride = asked.heads * width, values = asked.key_heads * width;
  Room room(asked, at);
  for (int64_t pair = from; pair < to; ++pair) {
    int64_t row = pair / asked.key_heads, shared = pair % asked.key_heads;
    if (pair == from || shared == 0) allow(asked, row, room.keys, room.permitted);
    bring_keys(asked, row, shared * width, room.key);
    bring_keys(asked, row, shared * width + values, room.value);
    transpose(room.key, asked.keys, width, room.turned, room.keys);
    transpose(room.value, asked.keys, width, room.turned_values, room.keys);
    fetch_next(asked, row, shared);
    for (int64_t index = 0; index < asked.keys * room.width; index += LANES) {
      save(room.of_key + index, Lanes{});
      save(room.of_value + index, Lanes{});
    }
    for (int64_t one = shared * each; one < (shared + 1) * each; ++one) {
      float* sums = from_column(asked.query_sums, row, made_stride, one * width);
      for (int64_t column = 0; sums && column < width; ++column) sums[column] = 0;
      for (int64_t query = 0; query < asked.queries; query += AT_ONCE) {
        int64_t count = smaller(AT_ONCE, asked.queries - query), keys = visible(asked, query, count);
        int64_t columns = padded(keys), item = row * asked.queries + query;
        bring_queries(asked, item, count, one * width, room.query);
        bring(asked.gradient + item * made_stride + one * width, nullptr, count, made_stride, width, 1.0f,
              room.gradient);
        multiply(count, width, columns, room.query, room.width, 1, room.turned, room.keys, room.scores, room.keys,
                 false);
        multiply(count, width, columns, room.gradient, room.width, 1, room.turned_values, room.keys, room.errors,
                 room.keys, false);
        const float* softmax = asked.softmax + ((row * asked.heads + one) * asked.queries + query) * 2;
        errors_of_scores(asked, room, query, count, columns, softmax);
        multiply(keys, count, room.width, room.scores, 1, room.keys, room.gradient, room.width, room.of_value,
                 room.width, true);
        multiply(keys, count, room.width, room.errors, 1, room.keys, room.query, room.width, room.of_key, room.width,
                 true);
        multiply(count, keys, room.width, room.errors, room.keys, 1, room.key, room.width, room.made, room.width,
                 false);
        take_back(room.made, count, asked.query_stride, width, asked.scale,
                  asked.of_query + item * asked.query_stride + one * width, sums);
      }
    }
    take_keys_back(asked, room.of_key, row, shared * width);
    take_keys_back(asked, room.of_value, row, shared * width + values);
  }
}
