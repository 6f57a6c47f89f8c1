// Tiles of a product of bfloat16 numbers by the processor's unit for matrices (AMX): up to TALL rows of the left factor
// meet a panel of PANEL columns of the right one, STEP pairs at a time, and sums stay in the unit until they are wanted.
// The unit adds up the upper and the lower numbers of pairs apart, STEP of each at a time, whatever rows are beside them:
// a row comes out the same in every batch.
//
// The unit's registers: 0 to 3 hold sums, a vector of columns each; 4 rows of the left factor; 5 to 7 the right one.

static constexpr int TALL = 16;
static constexpr int64_t STEP = 16;
static constexpr int64_t LOSS_ROWS = 256;      // of a loss that are worked on at a time
static constexpr int64_t SUMMED_AT_ONCE = 512;  // rows that are summed up before sums go back to memory

// How many rows each of the unit's registers has, and how many bytes a row.
struct alignas(64) TileShape {
  uint8_t palette = 1, start = 0, nothing[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {};
};
struct TileShapes {
  TileShape of[TALL + 1] = {};
  constexpr TileShapes() {
    for (int rows = 1; rows <= TALL; ++rows)
      for (int tile = 0; tile < 8; ++tile) of[rows].rows[tile] = static_cast<uint8_t>(tile < 5 ? rows : STEP);
  }
};
static constexpr TileShapes SHAPES;

// By hand, because the compiler's own do not say that they read memory.
#define REGARD_TILE_SHAPE(rows) __asm__ volatile("ldtilecfg %0" ::"m"(SHAPES.of[rows]) : "memory")
#define REGARD_TILE_LOAD(tile, from, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(stride) : "memory")
#define REGARD_TILE_STORE(tile, to, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
#define REGARD_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
#define REGARD_TILE_ADD(sums, left, right) \
  __asm__ volatile("tdpbf16ps %%tmm" #right ", %%tmm" #left ", %%tmm" #sums ::)

// The unit belongs to others, too, who give it the shape that they need: it is ours while this lives.
struct Tiles {
  Tiles() { REGARD_TILE_SHAPE(TALL); }
  Tiles(const Tiles&) = delete;
  ~Tiles() { __asm__ volatile("tilerelease" ::); }
};

// Pairs of rows that lie `down` apart.
struct Left {
  const Pair* at;
  int64_t down;
};
static inline Left row_left(const Pair* rows, int64_t pairs) { return {rows, pairs}; }

// A left factor from the rows of what is to be turned: (rows, columns ≤ PANEL) → (PANEL, pairs), in whole steps.
static inline int64_t whole_steps(int64_t pairs) { return (pairs + STEP - 1) / STEP * STEP; }
static void lay_columns(const Half* from, int64_t stride, int64_t rows, int64_t columns, Pair* to) {
  int64_t pairs = pairs_of(rows), down = whole_steps(pairs);
  alignas(64) Pair zipped[STEP * PANEL];
  for (int64_t pair = 0; pair < pairs; pair += STEP) {
    int64_t count = smaller(STEP, pairs - pair);
    zip_panel(from + 2 * pair * stride, stride, smaller(2 * STEP, rows - 2 * pair), columns, zipped);
    for (int64_t column = 0; column < PANEL; column += 16) {
      Lanes square[16];
#pragma GCC unroll 16
      for (int64_t p = 0; p < STEP; ++p)
        square[p] = p < count ? (Lanes)_mm512_load_si512(zipped + p * PANEL + column) : Lanes{};
      turn_square(square);
#pragma GCC unroll 16
      for (int64_t c = 0; c < 16; ++c) _mm512_storeu_ps((float*)(to + (column + c) * down + pair), (__m512)square[c]);
    }
  }
}
static inline Left column_left(const Pair* laid, int64_t pairs, int64_t column) {
  return {laid + column * whole_steps(pairs), whole_steps(pairs)};
}

// Adds up what was laid, column by column: times ones.
static void add_columns(const Pair* laid, int64_t pairs, bool starts, int64_t columns, float* sums) {
  const __m512i ones = _mm512_set1_epi32(0x3f803f80);
  int64_t down = whole_steps(pairs);
  for (int64_t column = 0; column < columns; ++column) {
    __m512 total = _mm512_setzero_ps();
    for (int64_t pair = 0; pair < down; pair += STEP)
      REGARD_ADD_PAIRS(total, _mm512_loadu_si512(laid + column * down + pair), ones);
    sums[column] = _mm512_reduce_add_ps(total) + (starts ? 0.0f : sums[column]);
  }
}

// The sums of a tile: in the unit until they are saved.
struct Sums {
  int rows;
  alignas(64) float of[TALL][PANEL];

  inline __attribute__((always_inline)) void clear() {
    REGARD_TILE_ZERO(0);
    REGARD_TILE_ZERO(1);
    REGARD_TILE_ZERO(2);
    REGARD_TILE_ZERO(3);
  }
  inline void load(const float* from, int64_t stride, const Edge& edge) {
    if (edge.of[ACROSS - 1] == 0xffff) return load_tiles(from, stride);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < ACROSS; ++c)
        _mm512_store_ps(of[r] + 16 * c, _mm512_maskz_loadu_ps(edge.of[c], from + r * stride + 16 * c));
    load_tiles(of[0], PANEL);
  }
  inline void save(float* to, int64_t stride, const Edge& edge) {
    if (edge.of[ACROSS - 1] == 0xffff) return store_tiles(to, stride);
    save_some(to, stride, edge);
  }
  inline void save(Half* to, int64_t stride, const Edge& edge) { save_some(to, stride, edge); }

  // keep(r, c, sums) takes the 16 sums of row r and column 16 c.
  template <class Keep>
  inline __attribute__((always_inline)) void end(Keep keep) {
    store_tiles(of[0], PANEL);
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < ACROSS; ++c) keep(r, c, _mm512_load_ps(of[r] + 16 * c));
  }

 private:
  template <class Number>
  inline void save_some(Number* to, int64_t stride, const Edge& edge) {
    end([&](int r, int c, __m512 sum) { put_some(to + r * stride + 16 * c, sum, edge.of[c]); });
  }
  static inline void load_tiles(const float* from, int64_t stride) {
    REGARD_TILE_LOAD(0, from, 4 * stride);
    REGARD_TILE_LOAD(1, from + 16, 4 * stride);
    REGARD_TILE_LOAD(2, from + 32, 4 * stride);
    REGARD_TILE_LOAD(3, from + 48, 4 * stride);
  }
  static inline void store_tiles(float* to, int64_t stride) {
    REGARD_TILE_STORE(0, to, 4 * stride);
    REGARD_TILE_STORE(1, to + 16, 4 * stride);
    REGARD_TILE_STORE(2, to + 32, 4 * stride);
    REGARD_TILE_STORE(3, to + 48, 4 * stride);
  }
};

static inline __attribute__((always_inline)) void add_step(const Pair* left, int64_t down, const Pair* right) {
  constexpr int64_t across = 4 * PANEL;
  REGARD_TILE_LOAD(4, left, 4 * down);
  REGARD_TILE_LOAD(5, right, across);
  REGARD_TILE_ADD(0, 4, 5);
  REGARD_TILE_LOAD(6, right + 16, across);
  REGARD_TILE_ADD(1, 4, 6);
  REGARD_TILE_LOAD(7, right + 32, across);
  REGARD_TILE_ADD(2, 4, 7);
  REGARD_TILE_LOAD(5, right + 48, across);
  REGARD_TILE_ADD(3, 4, 5);
}

// The last pairs, fewer than a step, with zeros behind them.
static __attribute__((noinline)) void add_last_pairs(int64_t pairs, Left left, const Pair* panel, int rows) {
  alignas(64) Pair some[TALL * STEP], right[STEP * PANEL] = {};
  for (int row = 0; row < rows; ++row)
    _mm512_store_si512(some + row * STEP, _mm512_maskz_loadu_epi32(up_to(pairs), left.at + row * left.down));
  for (int64_t pair = 0; pair < pairs; ++pair)
    for (int64_t column = 0; column < PANEL; column += 16)
      _mm512_store_si512(right + pair * PANEL + column, _mm512_loadu_si512(panel + pair * PANEL + column));
  add_step(some, STEP, right);
}

static inline __attribute__((always_inline)) void add_pairs(int64_t pairs, Left left, const Pair* panel, Sums& sums) {
  int64_t pair = 0;
  for (; pair + STEP <= pairs; pair += STEP) add_step(left.at + pair, left.down, panel + pair * PANEL);
  if (pair < pairs)
    add_last_pairs(pairs - pair, Left{left.at + pair, left.down}, panel + pair * PANEL, sums.rows);
}

struct Rows {
  int rows;
};
static inline Sums sums_of(Rows tall) {
  Sums sums;
  sums.rows = tall.rows;
  return sums;
}

// visit(Rows, row) for tiles that cover all rows.
template <class Visit>
static void by_tiles(int64_t rows, const Visit& visit) {
  int64_t row = 0;
  for (; row + TALL <= rows; row += TALL) visit(Rows{TALL}, row);
  if (row == rows) return;
  int rest = static_cast<int>(rows - row);
  REGARD_TILE_SHAPE(rest);
  visit(Rows{rest}, row);
  REGARD_TILE_SHAPE(TALL);
}
