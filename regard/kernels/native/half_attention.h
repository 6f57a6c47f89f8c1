// Attention in half precision, for heads of whole vectors that share no keys: nothing of a head is brought together
// first. Queries and keys meet as pairs, as factors of products do, and their products are exact; weights and errors
// remain in single precision and meet rows that are widened on the way to their registers.
//
// Shapes: Q queries, in blocks of LANES, N keys, E width of a head. Scores stand as (blocks, N, LANES).

static constexpr int64_t ROW = 2 * LANES;  // numbers of half precision in a vector

static inline bool is_halved(const Attention& asked) {
  return asked.narrow && asked.width % ROW == 0 && asked.heads == asked.key_heads && !asked.query_bias &&
         !asked.key_bias;
}

// visit(Tall<R>, row) for tiles of about the same height that cover all rows.
template <int MOST, class Visit>
static inline void visit_rows(int64_t rows, const Visit& visit, int64_t row) {
  if (rows == MOST) return visit_tile<MOST>(visit, row);
  if constexpr (MOST > 1) visit_rows<MOST - 1>(rows, visit, row);
}
template <int MOST, class Visit>
static inline void by_even_tiles(int64_t rows, const Visit& visit) {
  int64_t tiles = (rows + MOST - 1) / MOST;
  for (int64_t tile = 0, row = 0; tile < tiles; ++tile) {
    int64_t end = rows * (tile + 1) / tiles;
    visit_rows<MOST>(end - row, visit, row);
    row = end;
  }
}

// At most LANES rows (count, E) → (E / 2, LANES) pairs, with zeros.
static inline void turn_rows(const Half* from, int64_t stride, int64_t count, int64_t width, Pair* to) {
  for (int64_t e = 0; e < width; e += ROW, to += LANES * LANES) {
    Lanes square[REGARD_LANES];
#pragma GCC unroll 16
    for (int64_t row = 0; row < LANES; ++row)
      square[row] = row < count ? (Lanes)_mm512_loadu_si512(from + row * stride + e) : Lanes{};
    turn_square(square);
#pragma GCC unroll 16
    for (int64_t pair = 0; pair < LANES; ++pair) _mm512_store_ps((float*)(to + pair * LANES), (__m512)square[pair]);
  }
}

// Products of `count` rows of E with the LANES that were turned: (count, LANES).
static inline void compare(const Half* rows, int64_t stride, int64_t count, int64_t width, const Pair* turned,
                           float* out) {
  by_even_tiles<16>(count, [=](auto tall, int64_t row) __attribute__((always_inline)) {
    constexpr int R = decltype(tall)::rows;
    const Half* from = rows + row * stride;
    __m512 sums[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sums[r] = _mm512_setzero_ps();
    for (int64_t pair = 0; pair < width / 2; ++pair) {
      __m512i column = _mm512_load_si512(turned + pair * LANES);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        Pair both = *reinterpret_cast<const Pair*>(from + r * stride + 2 * pair);
        REGARD_ADD_PAIRS(sums[r], _mm512_set1_epi32(static_cast<int32_t>(both)), column);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) _mm512_store_ps(out + (row + r) * LANES, sums[r]);
  });
}

// Sums of weighted rows, ROW columns of them: those that are even, and those that are odd, so that a row is widened by
// a shift and a mask.
template <int R>
struct Weighted {
  __m512 even[R], odd[R];

  inline __attribute__((always_inline)) Weighted() {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) even[r] = odd[r] = _mm512_setzero_ps();
  }
  // Adds Σ weights[r · down + j · along] rows[j].
  inline __attribute__((always_inline)) void add(int64_t count, const float* weights, int64_t down, int64_t along,
                                                 const Half* rows, int64_t stride) {
    for (int64_t j = 0; j < count; ++j, rows += stride, weights += along) {
      __m512i row = _mm512_loadu_si512(rows);
      __m512 low = (__m512)_mm512_slli_epi32(row, 16);
      __m512 high = (__m512)_mm512_and_si512(row, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000)));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        __m512 weight = _mm512_set1_ps(weights[r * down]);
        even[r] = _mm512_fmadd_ps(weight, low, even[r]);
        odd[r] = _mm512_fmadd_ps(weight, high, odd[r]);
      }
    }
  }
  inline __attribute__((always_inline)) void save(Half* to, int64_t stride) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) _mm512_storeu_si512(to + r * stride, zipped_lanes(even[r], odd[r]));
  }
};

// Of ROW columns over the items of a row.
struct Totals {
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();

  template <int R>
  inline __attribute__((always_inline)) void add(const Weighted<R>& sums) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      even = _mm512_add_ps(even, sums.even[r]);
      odd = _mm512_add_ps(odd, sums.odd[r]);
    }
  }
  void save(float* to) const {
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(even, first, odd));
    _mm512_storeu_ps(to + LANES, _mm512_permutex2var_ps(even, second, odd));
  }
};

// Where a thread works.
struct HalfRoom {
  Pair *turned, *turned_gradient;  // (E / 2, LANES)
  float *scores, *errors, *permitted;
  int64_t size = 0;

  HalfRoom(const Attention& asked, float* at) {
    auto next = [&](int64_t count) { return (size += Room::apart(count), at ? at + size - Room::apart(count) : at); };
    turned = reinterpret_cast<Pair*>(next(asked.width / 2 * LANES));
    turned_gradient = reinterpret_cast<Pair*>(next(asked.width / 2 * LANES));
    scores = next(padded(asked.queries) * asked.keys), errors = next(padded(asked.queries) * asked.keys);
    permitted = next(asked.keys);
  }
};

// The score of each of the queries from the numbered one on with a key.
static inline Lanes looked_at(const Attention& asked, const float* permitted, Lanes product, int64_t query,
                              int64_t key) {
  Lanes score = product * asked.scale + permitted[key];
  if (!asked.causal || key <= query) return score;
  __mmask16 before = first(key - query);
  return (Lanes)_mm512_mask_mov_ps((__m512)score, before, _mm512_set1_ps(-__builtin_inff()));
}

// Products of a block of queries become exp(score - largest), whose sums are left to whom they are weights for.
static inline void weigh_block(const Attention& asked, const float* permitted, int64_t query, int64_t count,
                               int64_t keys, float* scores, Softmax softmax) {
  Lanes most = all(-__builtin_inff()), total = {};
  for (int64_t key = 0; key < keys; ++key) {
    Lanes score = looked_at(asked, permitted, load(scores + key * LANES), query, key);
    save(scores + key * LANES, score);
    most = larger(score, most);
  }
  most = most == -__builtin_inff() ? Lanes{} : most;
  for (int64_t key = 0; key < keys; ++key) {
    Lanes weight = exponential(load(scores + key * LANES) - most);
    save(scores + key * LANES, weight);
    total += weight;
  }
  put(softmax.largest, most, count);
  put(softmax.inverse, total == 0.0f ? Lanes{} : 1.0f / total, count);
}

// What is where for one head of one row.
struct Head {
  const Half *query, *key, *value, *gradient;
  Half *context, *of_query, *of_key, *of_value;
  int64_t made_stride;

  Head(const Attention& asked, const Given<Half>& given, int64_t row, int64_t head)
      : made_stride(asked.heads * asked.width) {
    int64_t column = head * asked.width, made = row * asked.queries * made_stride + column;
    int64_t from = row * asked.queries * asked.query_stride + column, at = row * asked.keys * asked.key_stride + column;
    auto place = [](auto* first, int64_t index) { return first ? first + index : first; };
    query = given.query + from, key = given.key + at, value = key + made_stride;
    context = place(given.context, made), gradient = place(given.gradient, made);
    of_query = place(given.of_query, from), of_key = place(given.of_key, at), of_value = place(of_key, made_stride);
  }
};

static void half_head(const Attention& asked, const Head& head, const HalfRoom& room, int64_t open, Softmax softmax) {
  for (int64_t query = 0; query < asked.queries; query += LANES) {
    int64_t count = smaller(LANES, asked.queries - query), keys = visible(asked, open, query, count);
    turn_rows(head.query + query * asked.query_stride, asked.query_stride, count, asked.width, room.turned);
    compare(head.key, asked.key_stride, keys, asked.width, room.turned, room.scores);
    const float* inverse = softmax.from(query).inverse;
    weigh_block(asked, room.permitted, query, count, keys, room.scores, softmax.from(query));
    by_even_tiles<8>(count, [&](auto tall, int64_t row) __attribute__((always_inline)) {
      for (int64_t e = 0; e < asked.width; e += ROW) {
        Weighted<decltype(tall)::rows> sums;
        int64_t some = visible(asked, keys, query + row, decltype(tall)::rows);
        sums.add(some, room.scores + row, 1, LANES, head.value + e, asked.key_stride);
#pragma GCC unroll 8
        for (int r = 0; r < decltype(tall)::rows; ++r) {
          __m512 share = _mm512_set1_ps(inverse[row + r]);
          sums.even[r] = _mm512_mul_ps(sums.even[r], share), sums.odd[r] = _mm512_mul_ps(sums.odd[r], share);
        }
        sums.save(head.context + (query + row) * head.made_stride + e, head.made_stride);
      }
    });
  }
}

// visit(row, head, keys up to the last one that may be looked at) for pairs of a row and a head.
template <class Visit>
static inline void by_heads(const Attention& asked, int64_t from, int64_t to, const HalfRoom& room, Visit visit) {
  Given<Half> given(asked);
  int64_t open = 0;
  for (int64_t pair = from; pair < to; ++pair) {
    int64_t row = pair / asked.heads, head = pair % asked.heads;
    if (pair == from || head == 0) open = allow(asked, row, room.permitted);
    fetch_next(asked, given, row, head);
    visit(row, head, Head(asked, given, row, head), open);
  }
}

static void half_attention(const Attention& asked, int64_t from, int64_t to, float* at) {
  if (!is_halved(asked)) return attention(asked, from, to, at);
  HalfRoom room(asked, at);
  by_heads(asked, from, to, room, [&](int64_t row, int64_t number, const Head& head, int64_t open) {
    half_head(asked, head, room, open, Softmax(asked, row, number, 0));
  });
}

// Weights and errors of scores, times the scale, of a block of queries.
static inline void err_block(const Attention& asked, const float* permitted, int64_t query, int64_t count,
                             int64_t keys, float* scores, float* errors, Softmax softmax) {
  Lanes most = take(softmax.largest, count), inverse = take(softmax.inverse, count), mean = {};
  for (int64_t key = 0; key < keys; ++key) {
    Lanes score = looked_at(asked, permitted, load(scores + key * LANES), query, key);
    Lanes weight = exponential(score - most) * inverse;
    save(scores + key * LANES, weight);
    mean += weight * load(errors + key * LANES);
  }
  for (int64_t key = 0; key < keys; ++key) {
    Lanes error = load(scores + key * LANES) * (load(errors + key * LANES) - mean);
    save(errors + key * LANES, error * asked.scale);
  }
}

// What queries leave for keys or values, weightsᵀ rows, and its sums over items, or null.
static inline void leave(const Attention& asked, const float* weights, const Half* rows, int64_t stride, Half* to,
                         float* sums) {
  for (int64_t e = 0; e < asked.width; e += ROW) {
    Totals totals;
    by_even_tiles<8>(asked.keys, [&](auto tall, int64_t key) __attribute__((always_inline)) {
      Weighted<decltype(tall)::rows> made;
      for (int64_t query = asked.causal ? key : 0, end; query < asked.queries; query = end) {
        end = smaller(query / LANES * LANES + LANES, asked.queries);
        const float* here = weights + query / LANES * LANES * asked.keys + key * LANES + query % LANES;
        made.add(end - query, here, LANES, 1, rows + query * stride + e, stride);
      }
      made.save(to + key * asked.key_stride + e, asked.key_stride);
      if (sums) totals.add(made);
    });
    if (sums) totals.save(sums + e);
  }
}

static inline void half_of_queries(const Attention& asked, const Head& head, const HalfRoom& room, int64_t open,
                                   float* sums) {
  for (int64_t e = 0; e < asked.width; e += ROW) {
    Totals totals;
    for (int64_t query = 0; query < asked.queries; query += LANES) {
      int64_t count = smaller(LANES, asked.queries - query), keys = visible(asked, open, query, count);
      const float* errors = room.errors + query * asked.keys;
      by_even_tiles<8>(count, [&](auto tall, int64_t row) __attribute__((always_inline)) {
        Weighted<decltype(tall)::rows> made;
        int64_t some = visible(asked, keys, query + row, decltype(tall)::rows);
        made.add(some, errors + row, 1, LANES, head.key + e, asked.key_stride);
        made.save(head.of_query + (query + row) * asked.query_stride + e, asked.query_stride);
        if (sums) totals.add(made);
      });
    }
    if (sums) totals.save(sums + e);
  }
}

static void half_backward_head(const Attention& asked, const Head& head, const HalfRoom& room, int64_t open,
                               Softmax softmax) {
  for (int64_t query = 0; query < asked.queries; query += LANES) {
    int64_t count = smaller(LANES, asked.queries - query), keys = visible(asked, open, query, count);
    float *scores = room.scores + query * asked.keys, *errors = room.errors + query * asked.keys;
    turn_rows(head.query + query * asked.query_stride, asked.query_stride, count, asked.width, room.turned);
    turn_rows(head.gradient + query * head.made_stride, head.made_stride, count, asked.width, room.turned_gradient);
    compare(head.key, asked.key_stride, keys, asked.width, room.turned, scores);
    compare(head.value, asked.key_stride, keys, asked.width, room.turned_gradient, errors);
    err_block(asked, room.permitted, query, count, keys, scores, errors, softmax.from(query));
    for (int64_t place = keys * LANES; place < asked.keys * LANES; place += LANES) {
      save(scores + place, Lanes{});
      save(errors + place, Lanes{});
    }
  }
}

static void half_attention_backward(const Attention& asked, int64_t from, int64_t to, float* at) {
  if (!is_halved(asked)) return attention_backward(asked, from, to, at);
  HalfRoom room(asked, at);
  int64_t all_heads = asked.heads * asked.width;
  by_heads(asked, from, to, room, [&](int64_t row, int64_t number, const Head& head, int64_t open) {
    float* of_query = from_column(asked.query_sums, row, all_heads, number * asked.width);
    float* of_key = from_column(asked.key_sums, row, 2 * all_heads, number * asked.width);
    half_backward_head(asked, head, room, open, Softmax(asked, row, number, 0));
    leave(asked, room.scores, head.gradient, head.made_stride, head.of_value, of_key ? of_key + all_heads : nullptr);
    leave(asked, room.errors, head.query, asked.query_stride, head.of_key, of_key);
    half_of_queries(asked, head, room, open, of_query);
  });
}

static int64_t half_attention_room(const Attention& asked) {
  return is_halved(asked) ? HalfRoom(asked, nullptr).size : attention_room(asked);
}
