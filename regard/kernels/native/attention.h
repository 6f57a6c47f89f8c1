// Attention over short sequences: all that a head has to look at stays in the nearest caches, so a head is a few small
// products there. Scores are made again in the backward pass.
//
// Shapes: Q queries, N keys (P with padding to whole vectors), E width of a head.

static constexpr int64_t AT_ONCE = 32;  // queries whose scores are there at once

// out (R, columns) = a b, or plus it: a(i, j) = a[i · down + j · along], b (inner, columns) by rows of a stride.
// Loops over a tile are unrolled before anything else is done to them, or sums would live in memory.
template <int ROWS, int VECTORS>
static inline __attribute__((always_inline)) void tile(int64_t inner, int64_t some, const float* a, int64_t down,
                                                       int64_t along, const float* b, int64_t stride, float* out,
                                                       int64_t out_stride, bool adds) {
  int64_t count = VECTORS > 1 ? LANES : some;
  Lanes sums[ROWS][VECTORS];
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) sums[r][v] = adds ? take(out + r * out_stride + v * LANES, count) : Lanes{};
  for (int64_t j = 0; j < inner; ++j) {
    Lanes values[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; ++v) values[v] = take(b + j * stride + v * LANES, count);
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
    for (int v = 0; v < VECTORS; ++v) put(out + r * out_stride + v * LANES, sums[r][v], count);
}

template <int ROWS>
static inline void strip(int64_t inner, int64_t columns, const float* a, int64_t down, int64_t along, const float* b,
                         int64_t stride, float* out, int64_t out_stride, bool adds) {
  int64_t column = 0;
  for (; column + 2 * LANES <= columns; column += 2 * LANES)
    tile<ROWS, 2>(inner, LANES, a, down, along, b + column, stride, out + column, out_stride, adds);
  for (; column < columns; column += LANES)
    tile<ROWS, 1>(inner, smaller(LANES, columns - column), a, down, along, b + column, stride, out + column,
                  out_stride, adds);
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

// (N, E) by rows of a stride → (E, P), with zeros.
static void transpose(const float* from, int64_t items, int64_t stride, int64_t width, float* to, int64_t room) {
  for (int64_t item = 0; item < room; item += LANES)
    for (int64_t e = 0; e < width; e += LANES) {
      int64_t columns = smaller(LANES, width - e), rows = smaller(LANES, items - item);
      Lanes square[REGARD_LANES];
      for (int64_t row = 0; row < LANES; ++row)
        square[row] = row < rows ? take(from + (item + row) * stride + e, columns) : Lanes{};
      turn_square(square);
      for (int64_t column = 0; column < columns; ++column) save(to + (e + column) * room + item, square[column]);
    }
}

// Lets a piece of what is needed next be fetched meanwhile: the `part`th of `parts`.
static inline void fetch(const float* from, int64_t count, int64_t part, int64_t parts) {
  for (int64_t index = count * part / parts; index < count * (part + 1) / parts; index += 16)
    __builtin_prefetch(from + index);
}

// One row of a batch, as a head sees it.
struct Head {
  int64_t query_stride, key_stride, room;
  const float* query;
  const float* key;
  const float* value;
  const float* allowed;  // (P) 0 or -∞
};

static inline Lanes seen(const Head& head, int64_t causal, int64_t query, int64_t key) {
  Lanes allowed = load(head.allowed + key);
  if (!causal || key + LANES <= query + 1) return allowed;
  Integers number = reinterpret_cast<Integers>(counting()) + static_cast<int32_t>(key);
  return number <= static_cast<int32_t>(query) ? allowed : all(-__builtin_inff());
}

// Scores of a query become weights; `softmax` gets what makes them the same again.
static inline void weigh(const Attention& asked, const Head& head, int64_t query, int64_t columns, float* scores,
                         float* softmax) {
  Lanes most = all(-__builtin_inff());
  for (int64_t key = 0; key < columns; key += LANES) {
    Lanes score = load(scores + key) * asked.scale + seen(head, asked.causal, query, key);
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

static inline void weigh_again(const Attention& asked, const Head& head, int64_t query, int64_t columns, float* scores,
                               const float* softmax) {
  for (int64_t key = 0; key < columns; key += LANES) {
    Lanes score = load(scores + key) * asked.scale + seen(head, asked.causal, query, key);
    save(scores + key, exponential(score - softmax[0]) * softmax[1]);
  }
}

static void allow(const Attention& asked, int64_t row, int64_t room, float* allowed) {
  for (int64_t key = 0; key < room; ++key) {
    bool open = key < asked.keys && (!asked.mask || asked.mask[row * asked.mask_stride + key]);
    allowed[key] = open ? 0.0f : -__builtin_inff();
  }
}

static int64_t attention_room(const Attention& asked) {
  return padded(asked.keys) * (1 + 2 * asked.width + 2 * AT_ONCE);
}

// How many keys any of `count` queries can see, in whole vectors and as they are.
static inline int64_t visible(const Attention& asked, int64_t query, int64_t count) {
  return asked.causal ? smaller(asked.keys, query + count) : asked.keys;
}

static inline void fetch_next(const Attention& asked, int64_t row, int64_t shared) {
  if (row + 1 == asked.rows) return;
  int64_t keys = asked.keys * 2 * asked.key_heads * asked.width, queries = asked.queries * asked.heads * asked.width;
  fetch(asked.key + (row + 1) * keys, keys, shared, asked.key_heads);
  fetch(asked.query + (row + 1) * queries, queries, shared, asked.key_heads);
  if (asked.gradient) fetch(asked.gradient + (row + 1) * queries, queries, shared, asked.key_heads);
}

static void attention(const Attention& asked, int64_t from, int64_t to, float* room) {
  int64_t width = asked.width, each = asked.heads / asked.key_heads;
  Head head = {asked.heads * width, 2 * asked.key_heads * width, padded(asked.keys), nullptr, nullptr, nullptr, room};
  float* turned = room + head.room;
  float* scores = turned + head.room * width;
  for (int64_t pair = from; pair < to; ++pair) {
    int64_t row = pair / asked.key_heads, shared = pair % asked.key_heads;
    if (pair == from || shared == 0) allow(asked, row, head.room, room);
    head.key = asked.key + row * asked.keys * head.key_stride + shared * width;
    head.value = head.key + asked.key_heads * width;
    transpose(head.key, asked.keys, head.key_stride, width, turned, head.room);
    fetch_next(asked, row, shared);
    for (int64_t one = shared * each; one < (shared + 1) * each; ++one)
      for (int64_t query = 0; query < asked.queries; query += AT_ONCE) {
        int64_t count = smaller(AT_ONCE, asked.queries - query), keys = visible(asked, query, count);
        int64_t columns = padded(keys);
        int64_t place = (row * asked.queries + query) * head.query_stride + one * width;
        multiply(count, width, columns, asked.query + place, head.query_stride, 1, turned, head.room, scores,
                 head.room, false);
        float* softmax = asked.softmax + ((row * asked.heads + one) * asked.queries + query) * 2;
        for (int64_t q = 0; q < count; ++q)
          weigh(asked, head, query + q, columns, scores + q * head.room, softmax + 2 * q);
        multiply(count, keys, width, scores, head.room, 1, head.value, head.key_stride, asked.context + place,
                 head.query_stride, false);
      }
  }
}

// With weights p and values v: ∂v = pᵀ ∂c, ∂p = ∂c vᵀ, ∂scores = p ∘ (∂p - Σ p ∘ ∂p), ∂q = ∂scores k, ∂k = ∂scoresᵀ q.
static void attention_backward(const Attention& asked, int64_t from, int64_t to, float* room) {
  int64_t width = asked.width, each = asked.heads / asked.key_heads;
  Head head = {asked.heads * width, 2 * asked.key_heads * width, padded(asked.keys), nullptr, nullptr, nullptr, room};
  float* turned = room + head.room;
  float* turned_values = turned + head.room * width;
  float* scores = turned_values + head.room * width;
  float* errors = scores + head.room * AT_ONCE;
  for (int64_t pair = from; pair < to; ++pair) {
    int64_t row = pair / asked.key_heads, shared = pair % asked.key_heads;
    if (pair == from || shared == 0) allow(asked, row, head.room, room);
    int64_t at = row * asked.keys * head.key_stride + shared * width;
    head.key = asked.key + at;
    head.value = head.key + asked.key_heads * width;
    float* of_key = asked.of_key + at;
    float* of_value = of_key + asked.key_heads * width;
    transpose(head.key, asked.keys, head.key_stride, width, turned, head.room);
    transpose(head.value, asked.keys, head.key_stride, width, turned_values, head.room);
    fetch_next(asked, row, shared);
    int64_t seen_first = visible(asked, 0, smaller(AT_ONCE, asked.queries));
    for (int64_t item = seen_first; item < asked.keys; ++item)
      for (int64_t e = 0; e < width; ++e) of_key[item * head.key_stride + e] = of_value[item * head.key_stride + e] = 0;
    for (int64_t one = shared * each; one < (shared + 1) * each; ++one)
      for (int64_t query = 0; query < asked.queries; query += AT_ONCE) {
        int64_t count = smaller(AT_ONCE, asked.queries - query), keys = visible(asked, query, count);
        int64_t columns = padded(keys);
        bool adds = one > shared * each || query > 0;
        int64_t place = (row * asked.queries + query) * head.query_stride + one * width;
        const float* gradient = asked.gradient + place;
        multiply(count, width, columns, asked.query + place, head.query_stride, 1, turned, head.room, scores,
                 head.room, false);
        multiply(count, width, columns, gradient, head.query_stride, 1, turned_values, head.room, errors, head.room,
                 false);
        const float* softmax = asked.softmax + ((row * asked.heads + one) * asked.queries + query) * 2;
        for (int64_t q = 0; q < count; ++q) {
          float* weights = scores + q * head.room;
          float* error = errors + q * head.room;
          weigh_again(asked, head, query + q, columns, weights, softmax + 2 * q);
          Lanes total = {};
          for (int64_t key = 0; key < columns; key += LANES) total += load(weights + key) * load(error + key);
          float mean = sum(total);
          for (int64_t key = 0; key < columns; key += LANES)
            save(error + key, load(weights + key) * (load(error + key) - mean) * asked.scale);
        }
        multiply(keys, count, width, scores, 1, head.room, gradient, head.query_stride, of_value, head.key_stride,
                 adds);
        multiply(keys, count, width, errors, 1, head.room, asked.query + place, head.query_stride, of_key,
                 head.key_stride, adds);
        multiply(count, keys, width, errors, head.room, 1, head.key, head.key_stride, asked.of_query + place,
                 head.query_stride, false);
      }
  }
}
