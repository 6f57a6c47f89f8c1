// Attention of few queries to few items.

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

// What a head has weighed, where it is asked for; `asked` is either kind of attention.
template <class Asked>
static inline void add_weights(const Asked& asked, int64_t head, const float* scores, float inverse, float* out) {
  if (asked.weighed >= 0 && asked.weighed != head) return;
  float among = asked.weighed < 0 ? static_cast<float>(asked.heads) : 1.0f;
  for (int64_t item = 0; item < asked.items; ++item) out[item] += scores[item] * inverse / among;
}

// Scores of the items from `item`, and -inf behind the last of them.
static inline Lanes real_scores(Lanes scores, int64_t item, int64_t items) {
  if (item + LANES <= items) return scores;
  IntegerLanes real = counted() < static_cast<int32_t>(items - item);
  return real ? scores : all(-__builtin_inff());
}

// Two sums for each score, over even and odd inputs: one alone would wait for itself. How many rows there are does not
// change how a score is summed.
template <int R, class Kept>
static inline void scores_of(const Attend& a, int64_t head, int64_t row, float* scores) {
  int64_t padded = whole_lanes(a.items);
  auto keys = Kept::keys_of(a, head * a.key_heads / a.heads, padded);
  const float* query = a.queries + row * a.query_stride + head * a.width;
  for (int64_t item = 0; item < a.items; item += LANES) {
    Lanes even[R] = {}, odd[R] = {};
    int64_t input = 0;
    for (; input + 2 <= a.width; input += 2) {
      Two key = Kept::two_inputs(keys, input, padded, item);
      Kept::call(keys + input / 2 * padded + item, a.keys_ahead);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        even[r] += query[r * a.query_stride + input] * key.one;
        odd[r] += query[r * a.query_stride + input + 1] * key.other;
      }
    }
    if (input < a.width) {
      Lanes key = Kept::last_input(keys, input, padded, item);
      for (int r = 0; r < R; ++r) even[r] += query[r * a.query_stride + input] * key;
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      Lanes score = (even[r] + odd[r]) * a.scale;
      if (a.bias) score += load(a.bias + head * a.bias_stride + a.bias_middle + item - (row + r));
      save(scores + r * padded + item, real_scores(score, item, a.items));
    }
  }
}

// Values of R rows times their weights, two vectors at a time.
template <int R, class Kept, bool WHOLE>
static inline void mix_rows(const Attend& a, int64_t head, int64_t row, const float* scores, const float* inverse) {
  int64_t padded = whole_lanes(a.items), width = a.value_width, stride = Kept::value_stride(a);
  auto values = Kept::values_of(a, head * a.key_heads / a.heads);
  float* out = a.out + row * a.out_stride + head * width;
  for (int64_t place = 0; Kept::first(place) < width; place += LANES) {
    Lanes one[R] = {}, other[R] = {};
    for (int64_t item = 0; item < a.items; ++item) {
      Two value = Kept::template two<WHOLE>(values + item * stride, place, width);
      Kept::call(values + item * stride + place, a.values_ahead);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        one[r] += scores[r * padded + item] * value.one;
        other[r] += scores[r * padded + item] * value.other;
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      keep<WHOLE>(out + r * a.out_stride, one[r] * inverse[r], Kept::first(place), width);
      keep<WHOLE>(out + r * a.out_stride, other[r] * inverse[r], Kept::second(place), width);
    }
  }
}

// Some heads at a time, each step for all of them: while one waits for its sums, others work.
template <int R, class Kept, bool WHOLE>
static inline void attend_rows(const Attend& a, int64_t first, int64_t end, int64_t row) {
  int64_t padded = whole_lanes(a.items);
  float inverse[HEADS_TOGETHER][R];
  for (int64_t head = first; head < end; ++head)
    scores_of<R, Kept>(a, head, row, a.scores + (head - first) * R * padded);
  for (int64_t head = first; head < end; ++head)
    for (int r = 0; r < R; ++r)
      inverse[head - first][r] = exponentials(a.scores + ((head - first) * R + r) * padded, a.items);
  for (int64_t head = first; head < end; ++head)
    mix_rows<R, Kept, WHOLE>(a, head, row, a.scores + (head - first) * R * padded, inverse[head - first]);
  if (!a.weights) return;
  for (int64_t head = first; head < end; ++head)
    for (int r = 0; r < R; ++r)
      add_weights(a, head, a.scores + ((head - first) * R + r) * padded, inverse[head - first][r],
                  a.weights + (row + r) * a.items);
}

template <class Kept, bool WHOLE>
static void attend_heads(const Attend& a) {
  for (int64_t head = 0; head < a.heads; head += HEADS_TOGETHER) {
    int64_t end = head + HEADS_TOGETHER < a.heads ? head + HEADS_TOGETHER : a.heads;
    for (int64_t row = 0; row < a.rows; row += TOGETHER) switch (a.rows - row) {
        case 1: attend_rows<1, Kept, WHOLE>(a, head, end, row); break;
        case 2: attend_rows<2, Kept, WHOLE>(a, head, end, row); break;
        case 3: attend_rows<3, Kept, WHOLE>(a, head, end, row); break;
        case 4: attend_rows<4, Kept, WHOLE>(a, head, end, row); break;
        case 5: attend_rows<5, Kept, WHOLE>(a, head, end, row); break;
        default: attend_rows<TOGETHER, Kept, WHOLE>(a, head, end, row);
      }
  }
}

template <class Kept>
static void attend_kept(const Attend& a) {
  if (a.value_width % Kept::whole)
    attend_heads<Kept, false>(a);
  else
    attend_heads<Kept, true>(a);
}

static void attend(const Attend& a) {
  if (a.key_pairs)
    attend_kept<Pairs>(a);
  else
    attend_kept<Floats>(a);
}

// Products of one query with the keys of as many items as a vector has places. WHOLE: heads are whole vectors.
#if defined(REGARD_AVX512)
template <class Kept, bool WHOLE>
static inline __m128 four_dots(const float* query, const void* const* items, int64_t skipped, int64_t width) {
  Lanes total[4] = {};
  for (int64_t place = 0; Kept::first(place) < width; place += LANES) {
    Lanes one = part<WHOLE>(query, Kept::first(place), width), other = part<WHOLE>(query, Kept::second(place), width);
#pragma GCC unroll 4
    for (int item = 0; item < 4; ++item) {
      Two key = Kept::template two<WHOLE>(Kept::at(items[item], skipped), place, width);
      total[item] += one * key.one;
      total[item] += other * key.other;
    }
  }
  __m512 one = (__m512)total[0], two = (__m512)total[1], three = (__m512)total[2], four = (__m512)total[3];
  __m512d low = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(one, two), _mm512_unpackhi_ps(one, two)));
  __m512d high = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(three, four), _mm512_unpackhi_ps(three, four)));
  __m512 both = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(low, high)),
                              _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256(both), _mm512_extractf32x8_ps(both, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

template <class Kept, bool WHOLE>
static inline Lanes dots(const float* query, const void* const* items, int64_t count, int64_t skipped, int64_t width) {
  __m512 result = _mm512_castps128_ps512(four_dots<Kept, WHOLE>(query, items, skipped, width));
  if (count > 4) result = _mm512_insertf32x4(result, four_dots<Kept, WHOLE>(query, items + 4, skipped, width), 1);
  if (count > 8) result = _mm512_insertf32x4(result, four_dots<Kept, WHOLE>(query, items + 8, skipped, width), 2);
  if (count > 12) result = _mm512_insertf32x4(result, four_dots<Kept, WHOLE>(query, items + 12, skipped, width), 3);
  return (Lanes)result;
}
#else
template <class Kept, bool WHOLE>
static inline Lanes dots(const float* query, const void* const* items, int64_t count, int64_t skipped, int64_t width) {
  float held[REGARD_LANES] = {};
  for (int64_t item = 0; item < LANES && item < count; ++item) {
    Lanes total = {};
    for (int64_t place = 0; Kept::first(place) < width; place += LANES) {
      Two key = Kept::template two<WHOLE>(Kept::at(items[item], skipped), place, width);
      total += part<WHOLE>(query, Kept::first(place), width) * key.one;
      total += part<WHOLE>(query, Kept::second(place), width) * key.other;
    }
    held[item] = sum(total);
  }
  return load(held);
}
#endif

// Values of the past times their weights, C times two vectors at once, even and odd items apart.
template <int C, class Kept, bool WHOLE>
static inline void mix_past(const AttendPast& a, const float* scores, float inverse, int64_t skipped, int64_t place,
                            float* out) {
  Lanes even[C][2] = {}, odd[C][2] = {};
  auto add = [&](int64_t item, Lanes (&total)[C][2]) __attribute__((always_inline)) {
    auto values = Kept::at(a.items[item], skipped);
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c) {
      Two value = Kept::template two<WHOLE>(values, place + c * LANES, a.width);
      total[c][0] += scores[item] * value.one;
      total[c][1] += scores[item] * value.other;
    }
  };
  int64_t item = 0;
  for (; item + 2 <= a.count; item += 2) {
    add(item, even);
    add(item + 1, odd);
  }
  if (item < a.count) add(item, even);
#pragma GCC unroll 2
  for (int c = 0; c < C; ++c) {
    keep<WHOLE>(out, (even[c][0] + odd[c][0]) * inverse, Kept::first(place + c * LANES), a.width);
    keep<WHOLE>(out, (even[c][1] + odd[c][1]) * inverse, Kept::second(place + c * LANES), a.width);
  }
}

template <class Kept, bool WHOLE>
static inline void past_scores(const AttendPast& a, int64_t head, float* scores) {
  int64_t skipped = head * a.key_heads / a.heads * Kept::room(a.width);
  const float* bias = a.bias ? a.bias + head * a.bias_stride + a.bias_middle - (a.count - 1) : nullptr;
  for (int64_t item = 0; item < a.count; item += LANES) {
    const float* query = a.query + head * a.width;
    Lanes score = dots<Kept, WHOLE>(query, a.items + item, a.count - item, skipped, a.width) * a.scale;
    if (bias) score += load(bias + item);
    save(scores + item, real_scores(score, item, a.count));
  }
}

template <class Kept, bool WHOLE>
static inline void past_values(const AttendPast& a, int64_t head, const float* scores, float inverse) {
  int64_t skipped = (a.key_heads + head * a.key_heads / a.heads) * Kept::room(a.width), place = 0;
  float* out = a.out + head * a.width;
  for (; 2 * (place + 2 * LANES) <= a.width; place += 2 * LANES)
    mix_past<2, Kept, WHOLE>(a, scores, inverse, skipped, place, out);
  for (; Kept::first(place) < a.width; place += LANES)
    mix_past<1, Kept, WHOLE>(a, scores, inverse, skipped, place, out);
}

template <class Kept, bool WHOLE>
static inline void attend_items(const AttendPast& a) {
  int64_t padded = whole_lanes(a.count);
  for (int64_t first = 0; first < a.heads; first += HEADS_TOGETHER) {
    int64_t end = first + HEADS_TOGETHER < a.heads ? first + HEADS_TOGETHER : a.heads;
    float inverse[HEADS_TOGETHER];
    for (int64_t head = first; head < end; ++head)
      past_scores<Kept, WHOLE>(a, head, a.scores + (head - first) * padded);
    for (int64_t head = first; head < end; ++head)
      inverse[head - first] = exponentials(a.scores + (head - first) * padded, a.count);
    for (int64_t head = first; head < end; ++head)
      past_values<Kept, WHOLE>(a, head, a.scores + (head - first) * padded, inverse[head - first]);
  }
}

template <class Kept>
static void attend_past_kept(const AttendPast& a) {
  if (a.width % Kept::whole)
    attend_items<Kept, false>(a);
  else
    attend_items<Kept, true>(a);
}

static void attend_past(const AttendPast& a) {
  if (a.pairs)
    attend_past_kept<Pairs>(a);
  else
    attend_past_kept<Floats>(a);
}
