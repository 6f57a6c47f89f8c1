// Tiles of a product of bfloat16 numbers, summed up in single precision, two products at a time for each sum. Up to TALL
// rows of the left factor, whose pairs are spread over vectors one by one, meet a panel of PANEL columns of the right one.
// Sums run over the pairs in order, whatever rows are beside them: a row comes out the same in every batch.

static constexpr int TALL = 6;  // 24 sums: with a row of the panel they fill the registers
static constexpr int64_t LOSS_ROWS = 120;       // of a loss that are worked on at a time
static constexpr int64_t SUMMED_AT_ONCE = 256;  // rows that are summed up before sums go back to memory

// Nothing has to be prepared for tiles.
struct Tiles {
  Tiles() {}
  ~Tiles() {}
};

// Pairs of rows that lie `down` apart; those of one row lie `along` apart.
struct Left {
  const Pair* at;
  int64_t down, along;
};
static inline Left row_left(const Pair* rows, int64_t pairs) { return {rows, pairs, 1}; }

// A left factor from the rows of what is to be turned: (rows, columns ≤ PANEL) → (pairs, PANEL).
static inline void lay_columns(const Half* from, int64_t stride, int64_t rows, int64_t columns, Pair* to) {
  zip_panel(from, stride, rows, columns, to);
}
static inline Left column_left(const Pair* laid, int64_t, int64_t column) { return {laid + column, 1, PANEL}; }

// Adds up what was laid, column by column: times ones. Vectors take turns, because each sum waits for itself.
static void add_columns(const Pair* laid, int64_t pairs, bool starts, int64_t columns, float* sums) {
  Edge edge(columns);
  const __m512i ones = _mm512_set1_epi32(0x3f803f80);
  __m512 total[ACROSS];
#pragma GCC unroll 4
  for (int c = 0; c < ACROSS; ++c)
    total[c] = starts ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(edge.of[c], sums + 16 * c);
  for (int64_t pair = 0; pair < pairs; ++pair, laid += PANEL)
#pragma GCC unroll 4
    for (int c = 0; c < ACROSS; ++c) REGARD_ADD_PAIRS(total[c], _mm512_loadu_si512(laid + 16 * c), ones);
#pragma GCC unroll 4
  for (int c = 0; c < ACROSS; ++c) put_some(sums + 16 * c, total[c], edge.of[c]);
}

// The sums of a tile.
template <int R>
struct Sums {
  __m512 of[R][ACROSS];

  // begin(r, c) says from what the 16 sums of row r and column 16 c start; keep(r, c, sums) takes what they have become.
  template <class Begin>
  inline __attribute__((always_inline)) void start(Begin begin) {
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < ACROSS; ++c) of[r][c] = begin(r, c);
  }
  template <class Keep>
  inline __attribute__((always_inline)) void end(Keep keep) const {
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < ACROSS; ++c) keep(r, c, of[r][c]);
  }
  inline __attribute__((always_inline)) void clear() {
    start([](int, int) { return _mm512_setzero_ps(); });
  }
  inline __attribute__((always_inline)) void load(const float* from, int64_t stride, const Edge& edge) {
    start([&](int r, int c) { return _mm512_maskz_loadu_ps(edge.of[c], from + r * stride + 16 * c); });
  }
  template <class Number>
  inline __attribute__((always_inline)) void save(Number* to, int64_t stride, const Edge& edge) const {
    end([&](int r, int c, __m512 sum) { put_some(to + r * stride + 16 * c, sum, edge.of[c]); });
  }
};

template <int R>
static inline __attribute__((always_inline)) void add_pairs(int64_t pairs, Left left, const Pair* panel,
                                                            Sums<R>& sums) {
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const Pair *right = panel + pair * PANEL, *rows = left.at + pair * left.along;
    __m512i p0 = _mm512_loadu_si512(right), p1 = _mm512_loadu_si512(right + 16);
    __m512i p2 = _mm512_loadu_si512(right + 32), p3 = _mm512_loadu_si512(right + 48);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      __m512i factor = _mm512_set1_epi32(static_cast<int32_t>(rows[r * left.down]));
      REGARD_ADD_PAIRS(sums.of[r][0], factor, p0);
      REGARD_ADD_PAIRS(sums.of[r][1], factor, p1);
      REGARD_ADD_PAIRS(sums.of[r][2], factor, p2);
      REGARD_ADD_PAIRS(sums.of[r][3], factor, p3);
    }
  }
}

template <int R>
static inline __attribute__((always_inline)) Sums<R> sums_of(Tall<R>) {
  Sums<R> sums;
  return sums;
}

// visit(Tall<R>, row) for tiles that cover all rows.
template <class Visit>
static void by_tiles(int64_t rows, const Visit& visit) {
  int64_t row = 0;
  for (; row + TALL <= rows; row += TALL) visit_tile<TALL>(visit, row);
  switch (rows - row) {
    case 5: return visit_tile<5>(visit, row);
    case 4: return visit_tile<4>(visit, row);
    case 3: return visit_tile<3>(visit, row);
    case 2: return visit_tile<2>(visit, row);
    case 1: return visit_tile<1>(visit, row);
    default: return;
  }
}
