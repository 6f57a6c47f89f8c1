// Tiles of a product: up to TILE rows times one panel of 64 columns, summed over all inputs; TALL of them in registers.
//
// Sums of floats run over the inputs in order, one after the other, whatever the number of rows; so a row comes out the
// same in every batch. Sums of bytes are exact: u8 times s8 added up in 32 bits, 16-bit products where 8-bit ones would
// saturate.

static constexpr int TALL = 6;
#if defined(REGARD_AMX)
static constexpr int TILE = 16;
#else
static constexpr int TILE = TALL;
#endif

// Some rows of bytes and one panel.
struct ByteTile {
  const uint8_t* rows;
  int64_t stride;
  const int8_t* panel;
  int64_t quads;         // inputs / 4
  const int32_t* start;  // of the sums
  int64_t start_stride;  // from row to row; 0: all begin alike
  const float* row_scales;
  const float* scales;
  const float* bias;
  const int8_t* ahead;  // what is needed soon, and called for; or null
  bool later;           // not so soon that it would stay in the first cache beside the panel in use
  int64_t before = -1;  // the unit for matrices is to be used, and may begin so many rows before; -1: it is not
};

enum class Calls { none, soon, later };

#if !defined(REGARD_AMX)
// What has a unit for matrices prepares it here (kernel_matrix.h).
struct Unit {
  Unit(int64_t, bool) {}
  ~Unit() {}
  static constexpr bool works(int64_t, bool) { return false; }
};
#endif

// Where the values of a tile go: out = max(0, value) or value, + residual.
struct TilePlace {
  float* out;
  int64_t stride;
  bool rectified;
  const float* residual[TILE];  // of each row; all null where there is none
};

#if defined(REGARD_AMX)
#include "kernel_matrix.h"
#endif

#if defined(REGARD_AVX512)

#define REGARD_DOT(sum, bytes, weights) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(weights))

// `keep` takes the 16 sums of row r and column 16 c while they are in a register.
template <int R, Calls CALLS, class Keep>
static inline __attribute__((always_inline)) void byte_sums(const ByteTile& tile, Keep keep) {
  constexpr int CHAINS = R <= 2 ? 2 : 1;  // sums of one column: one alone would wait for itself
  __m512i total[CHAINS][R][4];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      total[0][r][c] = _mm512_loadu_si512(tile.start + r * tile.start_stride + 16 * c);
      if constexpr (CHAINS == 2) total[1][r][c] = _mm512_setzero_si512();
    }
  const uint8_t* rows = tile.rows;
  const int8_t *panel = tile.panel, *ahead = tile.ahead;
  int64_t stride = tile.stride, quads = tile.quads;
  auto add = [&](int64_t quad, __m512i (&sums)[R][4]) __attribute__((always_inline)) {
    const int8_t* here = panel + quad * 4 * PANEL;
    __m512i w0 = _mm512_loadu_si512(here), w1 = _mm512_loadu_si512(here + 64);
    __m512i w2 = _mm512_loadu_si512(here + 128), w3 = _mm512_loadu_si512(here + 192);
    // the processor brings what lies behind it
    if constexpr (CALLS == Calls::soon) __builtin_prefetch(ahead + quad * 4 * PANEL);
    if constexpr (CALLS == Calls::later) __builtin_prefetch(ahead + quad * 4 * PANEL, 0, 2);  // into the second cache
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int32_t four;
      __builtin_memcpy(&four, rows + r * stride + quad * 4, 4);
      __m512i bytes = _mm512_set1_epi32(four);
      REGARD_DOT(sums[r][0], bytes, w0);
      REGARD_DOT(sums[r][1], bytes, w1);
      REGARD_DOT(sums[r][2], bytes, w2);
      REGARD_DOT(sums[r][3], bytes, w3);
    }
  };
  int64_t quad = 0;
  if constexpr (CHAINS == 2)
    for (; quad + 2 <= quads; quad += 2) {
      add(quad, total[0]);
      add(quad + 1, total[1]);
    }
  for (; quad < quads; ++quad) add(quad, total[0]);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      __m512i sum = total[0][r][c];
      if constexpr (CHAINS == 2) sum = _mm512_add_epi32(sum, total[1][r][c]);
      keep(r, c, sum);
    }
}

template <int R, class Keep>
static inline __attribute__((always_inline)) void byte_sums_ahead(const ByteTile& tile, Keep keep) {
  if (!tile.ahead)
    byte_sums<R, Calls::none>(tile, keep);
  else if (tile.later)
    byte_sums<R, Calls::later>(tile, keep);
  else
    byte_sums<R, Calls::soon>(tile, keep);
}

static inline __m512 byte_value(const ByteTile& tile, int r, int c, __m512i sum) {
  __m512 scale = _mm512_mul_ps(_mm512_set1_ps(tile.row_scales[r]), _mm512_loadu_ps(tile.scales + 16 * c));
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, _mm512_loadu_ps(tile.bias + 16 * c));
}

// Sums of a part of a panel, most often: what it calls for is needed soon.
template <int R>
static void byte_tile(const ByteTile& tile, int32_t* out) {
  auto keep = [&](int r, int c, __m512i sum) __attribute__((always_inline)) {
    _mm512_storeu_si512(out + r * PANEL + 16 * c, sum);
  };
  if (tile.ahead)
    byte_sums<R, Calls::soon>(tile, keep);
  else
    byte_sums<R, Calls::none>(tile, keep);
}

template <int R>
static void byte_values(const ByteTile& tile, float* out) {
  byte_sums_ahead<R>(tile, [&](int r, int c, __m512i sum) __attribute__((always_inline)) {
    _mm512_storeu_ps(out + r * PANEL + 16 * c, byte_value(tile, r, c, sum));
  });
}

// Straight from where they were made to their place; `sums` gives them to whom they are given. What is known of the
// place is read before: stores might change it, for all that a compiler knows.
template <bool ADDS, class Sums>
static inline __attribute__((always_inline)) void store_sums(const ByteTile& tile, const TilePlace& place, Sums sums) {
  __m512 least = _mm512_set1_ps(place.rectified ? 0.0f : -__builtin_inff());
  float* out = place.out;
  const float *scales = tile.scales, *bias = tile.bias, *row_scales = tile.row_scales;
  int64_t stride = place.stride;
  sums([&](int r, int c, __m512i sum) __attribute__((always_inline)) {
    __m512 scale = _mm512_mul_ps(_mm512_set1_ps(row_scales[r]), _mm512_loadu_ps(scales + 16 * c));
    __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, _mm512_loadu_ps(bias + 16 * c));
    value = _mm512_max_ps(least, value);  // of a number and NaN, NaN
    if constexpr (ADDS) value = _mm512_add_ps(value, _mm512_loadu_ps(place.residual[r] + 16 * c));
    _mm512_storeu_ps(out + r * stride + 16 * c, value);
  });
}
template <class Sums>
static inline __attribute__((always_inline)) void store_all(const ByteTile& tile, const TilePlace& place, Sums sums) {
  if (place.residual[0])
    store_sums<true>(tile, place, sums);
  else
    store_sums<false>(tile, place, sums);
}

template <int R>
static void byte_store(const ByteTile& tile, const TilePlace& place) {
  store_all(tile, place, [&](auto keep) __attribute__((always_inline)) { byte_sums_ahead<R>(tile, keep); });
}

template <int R>
static void float_tile(const float* rows, int64_t stride, const float* panel, int64_t inputs, float* out) {
  __m512 total[R][4];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) total[r][c] = _mm512_setzero_ps();
  for (int64_t input = 0; input < inputs; ++input) {
    const float* here = panel + input * PANEL;
    __m512 w0 = _mm512_loadu_ps(here), w1 = _mm512_loadu_ps(here + 16);
    __m512 w2 = _mm512_loadu_ps(here + 32), w3 = _mm512_loadu_ps(here + 48);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      __m512 value = _mm512_set1_ps(rows[r * stride + input]);
      total[r][0] = _mm512_fmadd_ps(value, w0, total[r][0]);
      total[r][1] = _mm512_fmadd_ps(value, w1, total[r][1]);
      total[r][2] = _mm512_fmadd_ps(value, w2, total[r][2]);
      total[r][3] = _mm512_fmadd_ps(value, w3, total[r][3]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) _mm512_storeu_ps(out + r * PANEL + 16 * c, total[r][c]);
}

#elif defined(REGARD_AVX2)

#if defined(REGARD_AVX_VNNI)
// 16 columns at a time, one instruction for 8 columns of 4 products.
template <int R>
static void byte_columns(const uint8_t* rows, int64_t stride, const int8_t* panel, int64_t quads, const int32_t* start,
                         int64_t start_stride, int32_t* out) {
  __m256i total[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < 2; ++c)
      total[r][c] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(start + r * start_stride + 8 * c));
  for (int64_t quad = 0; quad < quads; ++quad) {
    const __m256i* here = reinterpret_cast<const __m256i*>(panel + quad * 4 * PANEL);
    __m256i w0 = _mm256_loadu_si256(here), w1 = _mm256_loadu_si256(here + 1);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int32_t four;
      __builtin_memcpy(&four, rows + r * stride + quad * 4, 4);
      __m256i bytes = _mm256_set1_epi32(four);
      total[r][0] = REGARD_DOT256(total[r][0], bytes, w0);
      total[r][1] = REGARD_DOT256(total[r][1], bytes, w1);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < 2; ++c)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + r * PANEL + 8 * c), total[r][c]);
}
#else
// 16 columns at a time. Bytes are widened to 16 bits before they are multiplied: 255 * 127 * 2 does not fit into 16.
// A pair of products is added up in each 32-bit lane, so a column has two lanes until the end.
template <int R>
static void byte_columns(const uint8_t* rows, int64_t stride, const int8_t* panel, int64_t quads, const int32_t* start,
                         int64_t start_stride, int32_t* out) {
  __m256i total[R][4];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < 4; ++c) total[r][c] = _mm256_setzero_si256();
  for (int64_t quad = 0; quad < quads; ++quad) {
    const __m128i* here = reinterpret_cast<const __m128i*>(panel + quad * 4 * PANEL);
    __m256i weights[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) weights[c] = _mm256_cvtepi8_epi16(_mm_loadu_si128(here + c));
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int32_t four;
      __builtin_memcpy(&four, rows + r * stride + quad * 4, 4);
      __m256i bytes = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c)
        total[r][c] = _mm256_add_epi32(total[r][c], _mm256_madd_epi16(bytes, weights[c]));
    }
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < 4; ++c) {
      int32_t pairs[8];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs), total[r][c]);
      for (int column = 0; column < 4; ++column)
        out[r * PANEL + 4 * c + column] =
            start[r * start_stride + 4 * c + column] + pairs[2 * column] + pairs[2 * column + 1];
    }
}
#endif

template <int R>
static void byte_tile(const ByteTile& tile, int32_t* out) {
  for (int columns = 0; columns < PANEL; columns += 16) {
    const int8_t* panel = tile.panel + 4 * columns;
    const int32_t* start = tile.start + columns;
    if constexpr (R > 3) {
      byte_columns<3>(tile.rows, tile.stride, panel, tile.quads, start, tile.start_stride, out + columns);
      byte_columns<R - 3>(tile.rows + 3 * tile.stride, tile.stride, panel, tile.quads, start + 3 * tile.start_stride,
                          tile.start_stride, out + 3 * PANEL + columns);
    } else {
      byte_columns<R>(tile.rows, tile.stride, panel, tile.quads, start, tile.start_stride, out + columns);
    }
  }
}

template <int R>
static void float_tile(const float* rows, int64_t stride, const float* panel, int64_t inputs, float* out) {
  for (int columns = 0; columns < PANEL; columns += 16) {
    __m256 total[R][2];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) total[r][0] = total[r][1] = _mm256_setzero_ps();
    for (int64_t input = 0; input < inputs; ++input) {
      const float* here = panel + input * PANEL + columns;
      __m256 w0 = _mm256_loadu_ps(here), w1 = _mm256_loadu_ps(here + 8);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        __m256 value = _mm256_set1_ps(rows[r * stride + input]);
        total[r][0] = _mm256_fmadd_ps(value, w0, total[r][0]);
        total[r][1] = _mm256_fmadd_ps(value, w1, total[r][1]);
      }
    }
    for (int r = 0; r < R; ++r) {
      _mm256_storeu_ps(out + r * PANEL + columns, total[r][0]);
      _mm256_storeu_ps(out + r * PANEL + columns + 8, total[r][1]);
    }
  }
}

#else

template <int R>
static void byte_tile(const ByteTile& tile, int32_t* out) {
  for (int r = 0; r < R; ++r)
    for (int column = 0; column < PANEL; ++column)
      out[r * PANEL + column] = tile.start[r * tile.start_stride + column];
  for (int r = 0; r < R; ++r)
    for (int64_t quad = 0; quad < tile.quads; ++quad) {
      const int8_t* here = tile.panel + quad * 4 * PANEL;
      const uint8_t* four = tile.rows + r * tile.stride + quad * 4;
      for (int column = 0; column < PANEL; ++column)
        out[r * PANEL + column] += four[0] * here[4 * column] + four[1] * here[4 * column + 1] +
                                   four[2] * here[4 * column + 2] + four[3] * here[4 * column + 3];
    }
}

template <int R>
static void float_tile(const float* rows, int64_t stride, const float* panel, int64_t inputs, float* out) {
  for (int r = 0; r < R; ++r)
    for (int columns = 0; columns < PANEL; columns += 4 * REGARD_LANES) {
      Lanes total[4] = {};
      for (int64_t input = 0; input < inputs; ++input) {
        const float* here = panel + input * PANEL + columns;
        for (int c = 0; c < 4; ++c) total[c] += rows[r * stride + input] * load(here + c * LANES);
      }
      for (int c = 0; c < 4; ++c) save(out + r * PANEL + columns + c * LANES, total[c]);
    }
}

#endif

#if !defined(REGARD_AVX512)
template <int R>
static void byte_values(const ByteTile& tile, float* out) {
  alignas(64) int32_t sums[TILE * PANEL];
  byte_tile<R>(tile, sums);
  for (int r = 0; r < R; ++r)
    for (int column = 0; column < PANEL; column += REGARD_LANES) {
      IntegerLanes whole = *reinterpret_cast<const Integers*>(sums + r * PANEL + column);
      Lanes value = __builtin_convertvector(whole, Lanes) * (tile.row_scales[r] * load(tile.scales + column));
      save(out + r * PANEL + column, value + load(tile.bias + column));
    }
}

template <int R>
static void byte_store(const ByteTile& tile, const TilePlace& place) {
  alignas(64) float values[TILE * PANEL];
  byte_values<R>(tile, values);
  for (int r = 0; r < R; ++r)
    for (int column = 0; column < PANEL; column += REGARD_LANES) {
      Lanes value = load(values + r * PANEL + column);
      if (place.rectified) value = value < Lanes{} ? Lanes{} : value;  // NaN stays NaN
      if (place.residual[0]) value += load(place.residual[r] + column);
      save(place.out + r * place.stride + column, value);
    }
}
#endif
