// Tiles of any number of rows up to TILE, by whatever makes them here.

#define REGARD_FOR_ROWS(count, call, ...)  \
  switch (count) {                         \
    case 1: return call<1>(__VA_ARGS__);   \
    case 2: return call<2>(__VA_ARGS__);   \
    case 3: return call<3>(__VA_ARGS__);   \
    case 4: return call<4>(__VA_ARGS__);   \
    case 5: return call<5>(__VA_ARGS__);   \
    default: return call<6>(__VA_ARGS__);  \
  }

// part(count, tile, row) for parts of a tile that registers have the room for.
template <class Part>
static inline __attribute__((always_inline)) void by_parts(int64_t count, const ByteTile& whole, Part part) {
  ByteTile tile = whole;
  for (int64_t row = 0; row < count; row += TALL) {
    part(count - row < TALL ? count - row : TALL, tile, row);
    tile.rows += TALL * tile.stride;
    tile.start += TALL * tile.start_stride;
    tile.row_scales += TALL;
  }
}

static inline __attribute__((always_inline)) void tall_tiles(int64_t count, const ByteTile& tile, int32_t* out) {
  REGARD_FOR_ROWS(count, byte_tile, tile, out)
}
static inline __attribute__((always_inline)) void tall_values(int64_t count, const ByteTile& tile, float* out) {
  REGARD_FOR_ROWS(count, byte_values, tile, out)
}
static inline __attribute__((always_inline)) void tall_stores(int64_t count, const ByteTile& tile,
                                                             const TilePlace& place) {
  REGARD_FOR_ROWS(count, byte_store, tile, place)
}
static inline __attribute__((always_inline)) void tall_floats(int64_t count, const float* rows, int64_t stride,
                                                             const float* panel, int64_t inputs, float* out) {
  REGARD_FOR_ROWS(count, float_tile, rows, stride, panel, inputs, out)
}
#undef REGARD_FOR_ROWS

static void byte_tiles(int64_t count, const ByteTile& tile, int32_t* out) {
#if defined(REGARD_AMX)
  if (tile.before >= 0)
    return unit_sums_to(count, tile, [&](int r, int c, __m512i sum) __attribute__((always_inline)) {
      _mm512_storeu_si512(out + r * PANEL + 16 * c, sum);
    });
#endif
  if constexpr (TILE == TALL) return tall_tiles(count, tile, out);
  by_parts(count, tile, [&](int64_t some, const ByteTile& part, int64_t row) {
    tall_tiles(some, part, out + row * PANEL);
  });
}

// The sums times both scales, and the bias.
static void value_tiles(int64_t count, const ByteTile& tile, float* out) {
#if defined(REGARD_AMX)
  if (tile.before >= 0)
    return unit_sums_to(count, tile, [&](int r, int c, __m512i sum) __attribute__((always_inline)) {
      _mm512_storeu_ps(out + r * PANEL + 16 * c, byte_value(tile, r, c, sum));
    });
#endif
  if constexpr (TILE == TALL) return tall_values(count, tile, out);
  by_parts(count, tile, [&](int64_t some, const ByteTile& part, int64_t row) {
    tall_values(some, part, out + row * PANEL);
  });
}

static void store_tiles(int64_t count, const ByteTile& tile, const TilePlace& place) {
#if defined(REGARD_AMX)
  if (tile.before >= 0)
    return store_all(tile, place, [&](auto keep) __attribute__((always_inline)) { unit_sums_to(count, tile, keep); });
#endif
  if constexpr (TILE == TALL) return tall_stores(count, tile, place);
  by_parts(count, tile, [&](int64_t some, const ByteTile& part, int64_t row) {
    TilePlace here = place;
    here.out += row * place.stride;
    for (int64_t r = 0; r < some; ++r) here.residual[r] = place.residual[row + r];
    tall_stores(some, part, here);
  });
}

static void float_tiles(int64_t count, const float* rows, int64_t stride, const float* panel, int64_t inputs,
                        float* out) {
  if constexpr (TILE == TALL) return tall_floats(count, rows, stride, panel, inputs, out);
  for (int64_t row = 0; row < count; row += TALL)
    tall_floats(count - row < TALL ? count - row : TALL, rows + row * stride, stride, panel, inputs, out + row * PANEL);
}
