// What samples are drawn by: logits of a row, in whole panels, become weights in double precision.

static constexpr int64_t HALF = LANES / 2;

typedef double Doubles __attribute__((vector_size(4 * REGARD_LANES), aligned(8), may_alias));
typedef double DoubleLanes __attribute__((vector_size(4 * REGARD_LANES)));
typedef int64_t LongLanes __attribute__((vector_size(4 * REGARD_LANES)));
typedef float HalfVector __attribute__((vector_size(2 * REGARD_LANES), aligned(4), may_alias));
typedef float HalfLanes __attribute__((vector_size(2 * REGARD_LANES)));

static inline DoubleLanes wide(HalfLanes value) { return __builtin_convertvector(value, DoubleLanes); }
static inline HalfLanes narrow(DoubleLanes value) { return __builtin_convertvector(value, HalfLanes); }

// exp(x) for x <= 0 by its series, 4e-18 before rounding; below -708 it is 0. Of 0 it is 1.
static inline DoubleLanes shrinking_exactly(DoubleLanes x) {
  LongLanes low = x < -708.0;
  x = low ? DoubleLanes{} - 708.0 : x;
  DoubleLanes moved = x * 1.44269504088896341 + 6755399441055744.0;
  LongLanes power = reinterpret_cast<LongLanes>(moved) - 0x4338000000000000;
  DoubleLanes whole = moved - 6755399441055744.0;
  DoubleLanes rest = x - whole * 6.93147180369123816490e-01;
  rest = rest - whole * 1.90821492927058770002e-10;
  DoubleLanes p = DoubleLanes{} + 1.0 / 6227020800.0;
  p = p * rest + 1.0 / 479001600.0;
  p = p * rest + 1.0 / 39916800.0;
  p = p * rest + 1.0 / 3628800.0;
  p = p * rest + 1.0 / 362880.0;
  p = p * rest + 1.0 / 40320.0;
  p = p * rest + 1.0 / 5040.0;
  p = p * rest + 1.0 / 720.0;
  p = p * rest + 1.0 / 120.0;
  p = p * rest + 1.0 / 24.0;
  p = p * rest + 1.0 / 6.0;
  p = p * rest + 0.5;
  p = p * rest + 1.0;
  p = p * rest + 1.0;
  DoubleLanes result = p * reinterpret_cast<DoubleLanes>((power + 1023) << 52);
  return low ? DoubleLanes{} : result;
}

// The largest logit of each panel and of all, and the sum of exponentials in the parts that `project` has.
static void survey(const float* logits, int64_t panels, float* largest_of, Projected* row) {
  row->largest = -__builtin_inff();
  for (int64_t panel = 0; panel < panels; ++panel) {
    const float* here = logits + panel * PANEL;
    Lanes most = load(here);
    for (int64_t column = LANES; column < PANEL; column += LANES) most = larger(load(here + column), most);
    largest_of[panel] = largest(most);
    if (largest_of[panel] > row->largest) row->largest = largest_of[panel];
  }
  float top = row->largest;
  for (int64_t part = 0; part < 16; part += LANES) {
    Lanes total = {};
    for (int64_t column = part; column < panels * PANEL; column += 16) total += shrinking(load(logits + column) - top);
    save(row->sums + part, total);
  }
}

// exp((log p - best) / temperature) with log p in single precision, and the sum of each panel.
static void weigh(const float* logits, int64_t panels, double normaliser, double best, double temperature,
                  double* weights, double* sums) {
  for (int64_t panel = 0; panel < panels; ++panel) {
    DoubleLanes total = {};
    for (int64_t column = panel * PANEL; column < (panel + 1) * PANEL; column += HALF) {
      HalfLanes said = narrow(wide(*reinterpret_cast<const HalfVector*>(logits + column)) - normaliser);
      DoubleLanes weight = shrinking_exactly((wide(said) - best) / temperature);
      *reinterpret_cast<Doubles*>(weights + column) = weight;
      total += weight;
    }
    sums[panel] = 0;
    for (int64_t lane = 0; lane < HALF; ++lane) sums[panel] += total[lane];
  }
}
