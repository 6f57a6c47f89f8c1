// Sums of bytes by the processor's unit for matrices (AMX): up to 16 rows and one panel at a time, STEP quads of inputs
// in a go. They are the same as those of vectors, to the bit: all are exact.
//
// The unit's registers: 0 to 3 hold sums, 16 columns each; 4 rows of bytes; 5 to 7 weights.

static constexpr int64_t STEP = 16;
static constexpr int64_t WORTH = 8;  // rows: of fewer, vectors are done as soon

// How many rows each of the unit's registers has, and how many bytes a row.
struct alignas(64) UnitShape {
  uint8_t palette = 1, start = 0, nothing[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {};
};
struct UnitShapes {
  UnitShape of[TILE + 1] = {};
  constexpr UnitShapes() {
    for (int rows = 1; rows <= TILE; ++rows)
      for (int tile = 0; tile < 8; ++tile) of[rows].rows[tile] = static_cast<uint8_t>(tile < 5 ? rows : STEP);
  }
};
static constexpr UnitShapes SHAPES;

// By hand, because the compiler's own do not say that they read memory.
#define REGARD_UNIT_LOAD(tile, from, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(stride) : "memory")
#define REGARD_UNIT_STORE(tile, to, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
#define REGARD_UNIT_DOT(sums, bytes, weights) \
  __asm__ volatile("tdpbusd %%tmm" #weights ", %%tmm" #bytes ", %%tmm" #sums ::)

// The unit, for a product of so many rows with weights of bytes; nothing where vectors are as good.
class Unit {
 public:
  Unit(int64_t rows, bool bytes) : used_(works(rows, bytes)) {
    if (used_) __asm__ volatile("ldtilecfg %0" ::"m"(SHAPES.of[rows < TILE ? rows : TILE]) : "memory");
  }
  Unit(const Unit&) = delete;
  ~Unit() {
    if (used_) __asm__ volatile("tilerelease" ::);
  }
  static bool works(int64_t rows, bool bytes) { return bytes && rows >= WORTH; }

 private:
  bool used_;
};

template <bool CALLS>
static inline __attribute__((always_inline)) void unit_step(const uint8_t* rows, int64_t stride, const int8_t* panel,
                                                            const int8_t* ahead) {
  constexpr int64_t across = 4 * PANEL;
  REGARD_UNIT_LOAD(4, rows, stride);
  REGARD_UNIT_LOAD(5, panel, across);
  REGARD_UNIT_DOT(0, 4, 5);
  REGARD_UNIT_LOAD(6, panel + 64, across);
  REGARD_UNIT_DOT(1, 4, 6);
  REGARD_UNIT_LOAD(7, panel + 128, across);
  REGARD_UNIT_DOT(2, 4, 7);
  REGARD_UNIT_LOAD(5, panel + 192, across);
  REGARD_UNIT_DOT(3, 4, 5);
  if constexpr (CALLS)
#pragma GCC unroll 16
    for (int64_t quad = 0; quad < STEP; ++quad) __builtin_prefetch(ahead + quad * across, 0, 2);
}

// The last quads, fewer than a step, with zeros behind them.
static __attribute__((noinline)) void unit_last_step(const uint8_t* rows, int64_t count, int64_t stride,
                                                     const int8_t* panel, int64_t quads) {
  alignas(64) uint8_t some[TILE * 4 * STEP];
  alignas(64) int8_t weights[STEP * 4 * PANEL] = {};
  __mmask16 words = static_cast<__mmask16>((1u << quads) - 1);
  for (int64_t row = 0; row < count; ++row)
    _mm512_store_si512(some + row * 4 * STEP, _mm512_maskz_loadu_epi32(words, rows + row * stride));
  for (int64_t place = 0; place < quads * 4 * PANEL; place += 64)
    _mm512_store_si512(weights + place, _mm512_loadu_si512(panel + place));
  unit_step<false>(some, 4 * STEP, weights, nullptr);
}

// The sums of the rows of a tile, and of those before them that the unit has the room for: [TILE][PANEL].
static void unit_sums(int64_t count, const ByteTile& tile, int32_t* sums) {
  const uint8_t* rows = tile.rows - tile.before * tile.stride;
  const int8_t *panel = tile.panel, *ahead = tile.ahead;
  int64_t stride = tile.stride, quad = 0;
  REGARD_UNIT_LOAD(0, tile.start, int64_t{0});
  REGARD_UNIT_LOAD(1, tile.start + 16, int64_t{0});
  REGARD_UNIT_LOAD(2, tile.start + 32, int64_t{0});
  REGARD_UNIT_LOAD(3, tile.start + 48, int64_t{0});
  if (ahead)
    for (; quad + STEP <= tile.quads; quad += STEP)
      unit_step<true>(rows + 4 * quad, stride, panel + quad * 4 * PANEL, ahead + quad * 4 * PANEL);
  else
    for (; quad + STEP <= tile.quads; quad += STEP)
      unit_step<false>(rows + 4 * quad, stride, panel + quad * 4 * PANEL, nullptr);
  if (quad < tile.quads)
    unit_last_step(rows + 4 * quad, count + tile.before, stride, panel + quad * 4 * PANEL, tile.quads - quad);
  REGARD_UNIT_STORE(0, sums, int64_t{4 * PANEL});
  REGARD_UNIT_STORE(1, sums + 16, int64_t{4 * PANEL});
  REGARD_UNIT_STORE(2, sums + 32, int64_t{4 * PANEL});
  REGARD_UNIT_STORE(3, sums + 48, int64_t{4 * PANEL});
}

// keep(r, c, sums) takes the 16 sums of row r and column 16 c.
template <class Keep>
static inline __attribute__((always_inline)) void unit_sums_to(int64_t count, const ByteTile& tile, Keep keep) {
  alignas(64) int32_t sums[TILE * PANEL];
  unit_sums(count, tile, sums);
  const int32_t* first = sums + tile.before * PANEL;
  for (int r = 0; r < count; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) keep(r, c, _mm512_load_si512(first + r * PANEL + 16 * c));
}
