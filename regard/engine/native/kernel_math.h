// Vectors of floats in the width of the processor, and functions of them. Included once by each translation unit of
// kernels, inside its own namespace, so that no code for one processor is ever linked into that for another; for the
// same reason nothing of the standard library's templates is used here.
//
// Polynomials are least-squares fits on Chebyshev nodes; their relative errors are given.

typedef float Vector __attribute__((vector_size(4 * REGARD_LANES), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(4 * REGARD_LANES), aligned(4), may_alias));
typedef float Lanes __attribute__((vector_size(4 * REGARD_LANES)));
typedef int32_t IntegerLanes __attribute__((vector_size(4 * REGARD_LANES)));

static constexpr int64_t LANES = REGARD_LANES;

static inline Lanes load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
static inline void save(float* to, Lanes value) { *reinterpret_cast<Vector*>(to) = value; }
static inline Lanes all(float value) { return Lanes{} + value; }

// The first `count` numbers, and zeros.
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

#if defined(REGARD_AVX512)
static inline Lanes larger(Lanes one, Lanes other) { return (Lanes)_mm512_max_ps((__m512)one, (__m512)other); }
#elif defined(REGARD_AVX2)
static inline Lanes larger(Lanes one, Lanes other) { return (Lanes)_mm256_max_ps((__m256)one, (__m256)other); }
#else
static inline Lanes larger(Lanes one, Lanes other) { return one > other ? one : other; }
#endif
static inline Lanes positive(Lanes value) {
  return reinterpret_cast<Lanes>(reinterpret_cast<IntegerLanes>(value) & 0x7fffffff);
}

#if defined(REGARD_AVX512)
static inline float sum(Lanes value) { return _mm512_reduce_add_ps((__m512)value); }
static inline float largest(Lanes value) { return _mm512_reduce_max_ps((__m512)value); }
#else
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

// A bit for each lane whose number is greater.
static inline uint32_t above(Lanes value, float bound) {
#if defined(REGARD_AVX512)
  return _mm512_cmp_ps_mask((__m512)value, _mm512_set1_ps(bound), _CMP_GT_OQ);
#elif defined(REGARD_AVX2)
  return static_cast<uint32_t>(
      _mm256_movemask_ps(_mm256_cmp_ps((__m256)value, _mm256_set1_ps(bound), _CMP_GT_OQ)));
#else
  uint32_t bits = 0;
  for (int lane = 0; lane < REGARD_LANES; ++lane) bits |= static_cast<uint32_t>(value[lane] > bound) << lane;
  return bits;
#endif
}

// To the nearest integer; |value| < 2^22.
static inline Lanes rounded(Lanes value, IntegerLanes* integers) {
  Lanes moved = value + 12582912.0f;
  *integers = reinterpret_cast<IntegerLanes>(moved) - 0x4b400000;
  return moved - 12582912.0f;
}

// 3e-9 before rounding. NaN stays NaN; below -87 it is 0.
static inline Lanes exponential(Lanes x) {
  IntegerLanes low = x < all(-87.0f);
  x = x < all(-87.0f) ? all(-87.0f) : x;
  x = x > all(88.0f) ? all(88.0f) : x;
  IntegerLanes power;
  Lanes whole = rounded(x * 1.44269504088896341f, &power);
  Lanes rest = x - whole * 0.693359375f;
  rest = rest + whole * 2.12194440e-4f;
  Lanes p = all(0.00139485808f);
  p = p * rest + 0.00837512889f;
  p = p * rest + 0.0416662183f;
  p = p * rest + 0.166664155f;
  p = p * rest + 0.5000000108f;
  p = p * rest + 1.0f;
  p = p * rest + 1.0f;
  Lanes result = p * reinterpret_cast<Lanes>((power + 127) << 23);
  return low ? Lanes{} : result;
}

// 2^f for |f| <= 1/2; 8e-8 before rounding.
static inline Lanes power_of_two(Lanes f) {
  Lanes p = all(0.00132669704f);
  p = p * f + 0.00967545975f;
  p = p * f + 0.0555074262f;
  p = p * f + 0.240221218f;
  p = p * f + 0.693146949f;
  return p * f + 1.00000007f;
}

// exp(x) for x <= 0, as 2^n 2^f; 9e-8 before rounding. NaN stays NaN, and below -87 it is as good as 0.
static inline Lanes shrinking(Lanes x) {
#if defined(REGARD_AVX512)
  // f from 0 to 1, as the last instruction takes the next whole number below; it makes 0 of -inf by itself.
  Lanes t = x * 1.44269504088896341f;
  Lanes f = (Lanes)_mm512_reduce_ps((__m512)t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // of -inf, 0
  Lanes p = all(0.00187623291f);
  p = p * f + 0.00899258442f;
  p = p * f + 0.0558236055f;
  p = p * f + 0.240154535f;
  p = p * f + 0.693152964f;
  p = p * f + 0.99999994f;
  return (Lanes)_mm512_scalef_ps((__m512)p, (__m512)t);
#else
  x = x < all(-87.0f) ? all(-87.0f) : x;
  IntegerLanes power;
  Lanes t = x * 1.44269504088896341f, whole = rounded(t, &power);
  return power_of_two(t - whole) * reinterpret_cast<Lanes>((power + 127) << 23);
#endif
}

// 1 / x for x from 1 to 1e38; 4e-9 before rounding.
static inline Lanes reciprocal(Lanes x) {
#if defined(REGARD_AVX512)
  Lanes guess = (Lanes)_mm512_rcp14_ps((__m512)x);
  return guess * (2.0f - x * guess);
#else
  return 1.0f / x;
#endif
}

// exp(-x), at most 2^60: two of them may be multiplied. Its error grows with x, as that of 1 + exp(-x) does not.
static inline Lanes shrunk(Lanes x) {
#if defined(REGARD_AVX512)
  Lanes t = (Lanes)_mm512_min_ps(_mm512_set1_ps(60.0f), (__m512)(x * -1.44269504088896341f));  // NaN stays NaN
  t = (Lanes)_mm512_max_ps(_mm512_set1_ps(-126.0f), (__m512)t);
  Lanes whole = (Lanes)_mm512_roundscale_ps((__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return (Lanes)_mm512_scalef_ps((__m512)power_of_two(t - whole), (__m512)whole);
#else
  return exponential(x < all(-41.5f) ? all(41.5f) : -x);
#endif
}

static inline Lanes logistic(Lanes x) { return reciprocal(1.0f + shrunk(x)); }

// Below 0.64 by a polynomial (5e-9), as the difference of 1 and almost 1 would lose digits there.
static inline Lanes hyperbolic_tangent(Lanes x) {
  Lanes size = positive(x);
  Lanes square = x * x;
  Lanes p = all(-0.00554997995f);
  p = p * square + 0.0204923456f;
  p = p * square - 0.0536905191f;
  p = p * square + 0.133307479f;
  p = p * square - 0.333332444f;
  p = p * square + 1.0f;
  Lanes small = shrinking(-2.0f * size);
  Lanes far = (1.0f - small) * reciprocal(1.0f + small);
  far = x < Lanes{} ? -far : far;
  return size < all(0.64f) ? p * x : far;
}

// Abramowitz and Stegun 7.1.26: |error| < 1.5e-7.
static inline Lanes error_function(Lanes x) {
  Lanes size = positive(x);
  Lanes t = 1.0f / (1.0f + 0.3275911f * size);
  Lanes p = all(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  Lanes result = 1.0f - p * t * exponential(-(size * size));
  return x < Lanes{} ? -result : result;
}

static inline Lanes activated(Lanes x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return x < Lanes{} ? Lanes{} : x;  // NaN stays NaN
    case Activation::gelu:
      return x * 0.5f * (1.0f + error_function(x * 0.70710678118654752f));
    case Activation::gelu_tanh:
      return x * 0.5f * (1.0f + hyperbolic_tangent(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Activation::silu:
      return x * logistic(x);
    case Activation::tanh:
      return hyperbolic_tangent(x);
    default:
      return x;
  }
}
