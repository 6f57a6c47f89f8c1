// Vectors in the width of the processor. Included once by each translation unit of kernels, inside its own namespace, so
// that no code for one processor is ever linked into that for another; nothing of the standard library's templates is
// used here for the same reason.

typedef float Vector __attribute__((vector_size(4 * REGARD_LANES), aligned(4), may_alias));
typedef float Lanes __attribute__((vector_size(4 * REGARD_LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * REGARD_LANES)));
typedef int32_t Integers __attribute__((vector_size(4 * REGARD_LANES)));

typedef uint16_t Half;  // the upper half of a float: bfloat16
typedef uint16_t Halves __attribute__((vector_size(2 * REGARD_LANES), aligned(2), may_alias));

static constexpr int64_t LANES = REGARD_LANES;

static inline int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }
static inline int64_t padded(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

static inline Lanes load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
static inline void save(float* to, Lanes value) { *reinterpret_cast<Vector*>(to) = value; }
static inline Lanes all(float value) { return value - Lanes{}; }  // not plus: -0 + 0 is 0, which costs an addition

#if defined(REGARD_AVX512)
static inline __mmask16 first(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
static inline Lanes load_some(const float* from, int64_t count) {
  return (Lanes)_mm512_maskz_loadu_ps(first(count), from);
}
static inline void save_some(float* to, Lanes value, int64_t count) {
  _mm512_mask_storeu_ps(to, first(count), (__m512)value);
}
static inline Lanes only(Lanes value, int64_t count) {
  return (Lanes)_mm512_maskz_mov_ps(first(count), (__m512)value);
}
static inline float sum(Lanes value) { return _mm512_reduce_add_ps((__m512)value); }
static inline float largest(Lanes value) { return _mm512_reduce_max_ps((__m512)value); }
#else
static inline Lanes load_some(const float* from, int64_t count) {
  float held[REGARD_LANES] = {};
  for (int64_t lane = 0; lane < count; ++lane) held[lane] = from[lane];
  return load(held);
}
static inline void save_some(float* to, Lanes value, int64_t count) {
  float held[REGARD_LANES];
  save(held, value);
  for (int64_t lane = 0; lane < count; ++lane) to[lane] = held[lane];
}
static inline Lanes only(Lanes value, int64_t count) {
  float held[REGARD_LANES];
  save(held, value);
  return load_some(held, count);
}
static inline float sum(Lanes value) {
  float held[REGARD_LANES];
  save(held, value);
  for (int64_t half = LANES / 2; half; half /= 2)
    for (int64_t lane = 0; lane < half; ++lane) held[lane] += held[lane + half];
  return held[0];
}
static inline float largest(Lanes value) {
  float held[REGARD_LANES];
  save(held, value);
  float most = held[0];
  for (int64_t lane = 1; lane < LANES; ++lane) most = held[lane] > most ? held[lane] : most;
  return most;
}
#endif

// The same in half precision; the nearest number is kept, of two the even one, and NaN stays NaN.
#if defined(REGARD_BFLOAT16)
static inline Lanes load(const Half* from) {
  return (Lanes)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from)), 16);
}
static inline void save(Half* to, Lanes value) {
  _mm256_storeu_si256((__m256i*)to, (__m256i)_mm512_cvtneps_pbh((__m512)value));  // what is below 2^-126 becomes 0
}
static inline Lanes load_some(const Half* from, int64_t count) {
  __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(count), from));
  return (Lanes)_mm512_slli_epi32(words, 16);
}
static inline void save_some(Half* to, Lanes value, int64_t count) {
  _mm256_mask_storeu_epi16(to, first(count), (__m256i)_mm512_cvtneps_pbh((__m512)value));
}
#else
static inline Lanes load(const Half* from) {
  return reinterpret_cast<Lanes>(__builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words) << 16);
}
static inline void save(Half* to, Lanes value) {
  Words bits = reinterpret_cast<Words>(value);
  Words nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  nearest = value != value ? (bits >> 16) | 0x40 : nearest;
  *reinterpret_cast<Halves*>(to) = __builtin_convertvector(nearest, Halves);
}
static inline Lanes load_some(const Half* from, int64_t count) {
  Half held[REGARD_LANES] = {};
  for (int64_t lane = 0; lane < count; ++lane) held[lane] = from[lane];
  return load(held);
}
static inline void save_some(Half* to, Lanes value, int64_t count) {
  Half held[REGARD_LANES];
  save(held, value);
  for (int64_t lane = 0; lane < count; ++lane) to[lane] = held[lane];
}
#endif

// `count` numbers of at most a vector, and zeros; and back.
template <class Number>
static inline Lanes take(const Number* from, int64_t count) {
  return count >= LANES ? load(from) : load_some(from, count);
}
template <class Number>
static inline void put(Number* to, Lanes value, int64_t count) {
  if (count >= LANES)
    save(to, value);
  else
    save_some(to, value, count);
}

static inline Words counting() {
  Words numbers;
  for (uint32_t lane = 0; lane < REGARD_LANES; ++lane) numbers[lane] = lane;
  return numbers;
}

static inline Lanes larger(Lanes one, Lanes other) { return one > other ? one : other; }

// exp(x) for x ≤ 0, by a polynomial whose relative error is 3e-9 before rounding. NaN stays NaN; below -87 it is 0.
static inline Lanes exponential(Lanes x) {
#if defined(REGARD_AVX512)
  __mmask16 some = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
  x = (Lanes)_mm512_max_ps(_mm512_set1_ps(-87.0f), (__m512)x);  // of NaN and a number, the second
  Lanes whole = (Lanes)_mm512_roundscale_ps((__m512)(x * 1.44269504088896341f),
                                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  Integers low = x < all(-87.0f);
  x = low ? all(-87.0f) : x;
  Lanes moved = x * 1.44269504088896341f + 12582912.0f;  // the nearest integer is in its last bits
  Integers power = reinterpret_cast<Integers>(moved) - 0x4b400000;
  Lanes whole = moved - 12582912.0f;
#endif
  Lanes rest = x - whole * 0.693359375f;
  rest = rest + whole * 2.12194440e-4f;
  Lanes p = all(0.00139485808f);
  p = p * rest + 0.00837512889f;
  p = p * rest + 0.0416662183f;
  p = p * rest + 0.166664155f;
  p = p * rest + 0.5000000108f;
  p = p * rest + 1.0f;
  p = p * rest + 1.0f;
#if defined(REGARD_AVX512)
  return (Lanes)_mm512_maskz_scalef_ps(some, (__m512)p, (__m512)whole);  // smaller ones would be slow as well as small
#else
  Lanes result = p * reinterpret_cast<Lanes>((power + 127) << 23);
  return low ? Lanes{} : result;
#endif
}

// Turns LANES vectors of rows into vectors of columns: as many perfect shuffles as the number of lanes has bits.
static inline void turn_square(Lanes* rows) {
  Integers lower, upper;
  for (int32_t lane = 0; lane < REGARD_LANES; ++lane) {
    lower[lane] = lane / 2 + lane % 2 * REGARD_LANES;
    upper[lane] = lower[lane] + REGARD_LANES / 2;
  }
  Lanes other[REGARD_LANES];
  for (int bits = 1; bits < REGARD_LANES; bits *= 2) {
    for (int row = 0; row < REGARD_LANES / 2; ++row) {
      other[2 * row] = __builtin_shuffle(rows[row], rows[row + REGARD_LANES / 2], lower);
      other[2 * row + 1] = __builtin_shuffle(rows[row], rows[row + REGARD_LANES / 2], upper);
    }
    for (int row = 0; row < REGARD_LANES; ++row) rows[row] = other[row];
  }
}
