// Pairs of bfloat16 numbers that are multiplied and summed up together, and factors of products laid out as such pairs.
// A right factor stands in panels of PANEL columns, (pairs, PANEL); a left one row by row, (rows, pairs).

static constexpr int ACROSS = 4;      // vectors of a panel
static constexpr int64_t AHEAD = 16;  // rows that are called for before they are packed: many come from far away

typedef uint32_t __attribute__((aligned(2), may_alias)) Pair;  // neighbours along the sum, the first in the lower half

static inline __mmask16 up_to(int64_t count) {
  return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
}

static inline __mmask32 some_of(int64_t count) { return count >= 32 ? ~0u : count <= 0 ? 0 : (1u << count) - 1; }

// Which columns of a panel there are.
struct Edge {
  __mmask16 of[ACROSS];
  explicit Edge(int64_t columns) : of{up_to(columns), up_to(columns - 16), up_to(columns - 32), up_to(columns - 48)} {}
};

static inline void put_some(float* to, __m512 value, __mmask16 some) { _mm512_mask_storeu_ps(to, some, value); }
static inline void put_some(Half* to, __m512 value, __mmask16 some) {
  _mm256_mask_storeu_epi16(to, some, (__m256i)_mm512_cvtneps_pbh(value));
}

// sum += left · right of 16 pairs. Not left to the compiler, which would take the factor of each instruction from memory anew.
#define REGARD_ADD_PAIRS(sum, left, right) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right))

// A number of rows that the compiler knows.
template <int R>
struct Tall {
  static constexpr int rows = R;
};

// A function of its own for each height: sums of several in one would not stay in registers.
template <int R, class Visit>
static __attribute__((noinline)) void visit_tile(const Visit& visit, int64_t row) {
  visit(Tall<R>(), row);
}

static inline int64_t panels_of(int64_t columns) { return (columns + PANEL - 1) / PANEL; }
static inline int64_t pairs_of(int64_t inner) { return (inner + 1) / 2; }

// `count` neighbours in a row as 16 pairs, with zeros.
static inline __m512i row_pairs(const float* from, int64_t count) {
  __m512 low = _mm512_maskz_loadu_ps(up_to(count), from), high = _mm512_maskz_loadu_ps(up_to(count - 16), from + 16);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
static inline __m512i row_pairs(const Half* from, int64_t count) {
  return _mm512_maskz_loadu_epi16(some_of(count), from);
}

// 16 pairs of what lies in two rows, one above the other.
static inline __m512i zipped_lanes(__m512 upper, __m512 lower) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(lower, upper));
}

// 32 columns of two rows as pairs. Whole vectors of half precision are shuffled as they are.
static inline void zip_columns(const float* upper, const float* lower, __mmask32 in_upper, __mmask32 in_lower,
                               Pair* to) {
  for (int c = 0; c < 32; c += 16) {
    __m512 first = _mm512_maskz_loadu_ps(static_cast<__mmask16>(in_upper >> c), upper + c);
    __m512 second = _mm512_maskz_loadu_ps(static_cast<__mmask16>(in_lower >> c), lower + c);
    _mm512_storeu_si512(to + c, zipped_lanes(first, second));
  }
}
static inline void zip_columns(const Half* upper, const Half* lower, __mmask32 in_upper, __mmask32 in_lower, Pair* to) {
  const __m512i left = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                        5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i right = _mm512_add_epi16(left, _mm512_set1_epi16(16));
  __m512i first = _mm512_maskz_loadu_epi16(in_upper, upper), second = _mm512_maskz_loadu_epi16(in_lower, lower);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(first, left, second));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(first, right, second));
}

// A panel of a right factor that is summed over its rows: (rows, columns ≤ PANEL) → (pairs, PANEL), with zeros.
template <class Number>
static void zip_panel(const Number* from, int64_t stride, int64_t rows, int64_t columns, Pair* to) {
  const __mmask32 some[2] = {some_of(columns), some_of(columns - 32)};
  int64_t row = 0;
  for (; row + 1 < rows; row += 2, from += 2 * stride, to += PANEL) {
    for (int64_t column = 0; column < PANEL; column += 64 / sizeof(Number)) {
      __builtin_prefetch(from + AHEAD * stride + column);
      __builtin_prefetch(from + (AHEAD + 1) * stride + column);
    }
    for (int c = 0; c < 2; ++c) zip_columns(from + 32 * c, from + stride + 32 * c, some[c], some[c], to + 32 * c);
  }
  if (row < rows)
    for (int c = 0; c < 2; ++c) zip_columns(from + 32 * c, from + 32 * c, some[c], 0, to + 32 * c);
}

// A panel of a right factor that is summed over its columns: (rows ≤ PANEL, inner) → (pairs, PANEL), with zeros.
static void turn_panel(const float* from, int64_t stride, int64_t rows, int64_t inner, Pair* to) {
  for (int64_t pair = 0; pair < pairs_of(inner); pair += 16)
    for (int64_t row = 0; row < PANEL; row += 16) {
      Lanes square[16];
      for (int64_t r = 0; r < 16; ++r) {
        const float* at = from + (row + r) * stride + 2 * pair;
        square[r] = row + r < rows ? (Lanes)row_pairs(at, inner - 2 * pair) : Lanes{};
      }
      turn_square(square);
      int64_t count = smaller(16, pairs_of(inner) - pair);
      for (int64_t p = 0; p < count; ++p) _mm512_storeu_ps((float*)(to + (pair + p) * PANEL + row), (__m512)square[p]);
    }
}

// Rows of a left factor, narrowed: (rows, inner) → (rows, pairs), with a zero where the number of pairs is not whole.
template <class Number>
static void lay_rows(const Number* from, int64_t stride, int64_t rows, int64_t inner, Pair* to) {
  int64_t pairs = pairs_of(inner);
  for (int64_t row = 0; row < rows; ++row, from += stride, to += pairs)
    for (int64_t pair = 0; pair < pairs; pair += 16) {
      for (int64_t line = 0; line < 32; line += 64 / sizeof(Number))
        __builtin_prefetch(from + AHEAD * stride + 2 * pair + line);
      _mm512_mask_storeu_epi32(to + pair, up_to(pairs - pair), row_pairs(from + 2 * pair, inner - 2 * pair));
    }
}
