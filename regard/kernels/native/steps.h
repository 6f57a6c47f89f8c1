// One more item of each row of one sentence through all layers of a Transformer's decoder, in one go: with so few rows
// the calls of its parts would cost more than what they do. One thread does it.

#if defined(REGARD_AVX512)
static constexpr int STEP_VECTORS = 4;
#else
static constexpr int STEP_VECTORS = 2;
#endif
static constexpr int STEP_ROWS = 6;  // sums of so many rows and vectors stay in registers

// What is made of rows (R, I): out = rows · weight + bias, and what is done to it at once.
struct StepTask {
  const float* in;  // (R, I)
  const float* weight;
  int64_t inner, columns;
  const float* bias;   // or null
  const float* added;  // (R, O) or null
  bool rectifies;
  float* out;  // (R, O); it may be `added`
};

template <int ROWS, int VECTORS>
static inline void step_tile(const StepTask& task, int64_t row, int64_t column, int64_t count) {
  int64_t inner = task.inner, columns = task.columns;
  int64_t last = count - (VECTORS - 1) * LANES;  // numbers of the last vector
  const float* in = task.in + row * inner;
  Lanes total[ROWS][VECTORS];
  for (int vector = 0; vector < VECTORS; ++vector) {
    int64_t here = vector + 1 < VECTORS ? LANES : last;
    Lanes bias = task.bias ? take(task.bias + column + vector * LANES, here) : Lanes{};
    for (int one = 0; one < ROWS; ++one) total[one][vector] = bias;
  }
  const float* weight = task.weight + column;
  for (int64_t place = 0; place < inner; ++place, weight += columns) {
    Lanes factor[VECTORS];
    for (int vector = 0; vector < VECTORS; ++vector)
      factor[vector] = take(weight + vector * LANES, vector + 1 < VECTORS ? LANES : last);
    for (int one = 0; one < ROWS; ++one) {
      Lanes own = all(in[one * inner + place]);
      for (int vector = 0; vector < VECTORS; ++vector) total[one][vector] += own * factor[vector];
    }
  }
  for (int one = 0; one < ROWS; ++one)
    for (int vector = 0; vector < VECTORS; ++vector) {
      int64_t here = vector + 1 < VECTORS ? LANES : last, at = (row + one) * columns + column + vector * LANES;
      Lanes value = total[one][vector];
      if (task.added) value += take(task.added + at, here);
      if (task.rectifies) value = value < Lanes{} ? Lanes{} : value;  // NaN comes through
      put(task.out + at, value, here);
    }
}

template <int ROWS>
static inline void step_columns(const StepTask& task, int64_t row) {
  constexpr int64_t WIDE = STEP_VECTORS * LANES;
  int64_t column = 0;
  for (; column + WIDE <= task.columns; column += WIDE) step_tile<ROWS, STEP_VECTORS>(task, row, column, WIDE);
  for (; column < task.columns; column += LANES)
    step_tile<ROWS, 1>(task, row, column, smaller(LANES, task.columns - column));
}

static void step_product(const StepTask& task, int64_t rows) {
  int64_t row = 0;
  for (; row + STEP_ROWS <= rows; row += STEP_ROWS) step_columns<STEP_ROWS>(task, row);
  switch (rows - row) {
    case 1: return step_columns<1>(task, row);
    case 2: return step_columns<2>(task, row);
    case 3: return step_columns<3>(task, row);
    case 4: return step_columns<4>(task, row);
    case 5: return step_columns<5>(task, row);
    default: return;
  }
}

// In two passes, as torch's; `out` may be `in`.
static void step_norm(const StepNorm& norm, const float* in, float* out, int64_t rows, int64_t width) {
  float share = 1.0f / static_cast<float>(width);
  for (int64_t row = 0; row < rows; ++row, in += width, out += width) {
    Lanes total = {}, squares = {};
    for (int64_t column = 0; column < width; column += LANES) total += take(in + column, smaller(LANES, width - column));
    float mean = sum(total) * share;
    for (int64_t column = 0; column < width; column += LANES) {
      int64_t count = smaller(LANES, width - column);
      Lanes apart = take(in + column, count) - mean;
      apart = count < LANES ? only(apart, count) : apart;
      squares += apart * apart;
    }
    float inverse = 1.0f / __builtin_sqrtf(sum(squares) * share + norm.epsilon);
    for (int64_t column = 0; column < width; column += LANES) {
      int64_t count = smaller(LANES, width - column);
      Lanes value = (take(in + column, count) - mean) * inverse * take(norm.gain + column, count);
      if (norm.bias) value += take(norm.bias + column, count);
      put(out + column, value, count);
    }
  }
}

// Scores become weights; NaN comes through.
static void step_softmax(float* scores, int64_t count) {
  float top = scores[0];
  for (int64_t one = 1; one < count; ++one) top = scores[one] > top ? scores[one] : top;
  Lanes total = {};
  for (int64_t one = 0; one < count; one += LANES) {
    int64_t here = smaller(LANES, count - one);
    Lanes value = exponential(take(scores + one, here) - top);
    value = here < LANES ? only(value, here) : value;
    total += value;
    put(scores + one, value, here);
  }
  float share = 1.0f / sum(total);
  for (int64_t one = 0; one < count; one += LANES) {
    int64_t here = smaller(LANES, count - one);
    put(scores + one, take(scores + one, here) * share, here);
  }
}

// What one row says in self-attention, of entries that it sees: a key and a value each, in heads side by side.
static void step_look(const Stepped& asked, const float* query, const float* past, const int32_t* seen, int64_t count,
                      float* scores, float* context) {
  int64_t width = asked.width, each = width / asked.heads;
  for (int64_t head = 0; head < asked.heads; ++head) {
    const float* own = query + head * each;
    for (int64_t one = 0; one < count; ++one) {
      const float* key = past + seen[one] * 2 * width + head * each;
      Lanes total = {};
      for (int64_t column = 0; column < each; column += LANES) {
        int64_t here = smaller(LANES, each - column);
        total += take(own + column, here) * take(key + column, here);
      }
      scores[one] = sum(total);
    }
    step_softmax(scores, count);
    for (int64_t column = 0; column < each; column += LANES) {
      int64_t here = smaller(LANES, each - column);
      Lanes total = {};
      for (int64_t one = 0; one < count; ++one)
        total += scores[one] * take(past + (seen[one] * 2 + 1) * width + head * each + column, here);
      put(context + head * each + column, total, here);
    }
  }
}

static int64_t step_room(const Stepped& asked) {
  int64_t widest = 3 * asked.width;
  widest = asked.inner > widest ? asked.inner : widest;
  widest = asked.items * asked.cross_heads > widest ? asked.items * asked.cross_heads : widest;
  return asked.rows * (2 * asked.width + widest) + asked.entries + asked.rows * (asked.entries + 1);
}

static void stepped(const Stepped& asked, float* room) {
  int64_t rows = asked.rows, width = asked.width, items = asked.items, entries = asked.entries;
  int64_t together = asked.cross_heads * items;
  float* inside = room;                   // (K, D)
  float* context = inside + rows * width;  // (K, D)
  float* scores = context + rows * width;  // (C)
  auto* counts = reinterpret_cast<int32_t*>(scores + entries);  // (K)
  int32_t* seen = counts + rows;                                // (K, C)
  float* wide = reinterpret_cast<float*>(seen + rows * entries);
  for (int64_t row = 0; row < rows; ++row) {
    int32_t count = 0;
    for (int64_t one = 0; one < entries; ++one)
      if (asked.seen[row * asked.room + one] == 0.0f) seen[row * entries + count++] = static_cast<int32_t>(one);
    counts[row] = count;
  }
  float* states = asked.states;
  for (int64_t layer = 0; layer < asked.layers; ++layer) {
    const StepLayer& own = asked.parts[layer];
    bool first = asked.norm_first != 0;
    auto before = [&](int norm) {
      if (first) step_norm(own.norms[norm], states, inside, rows, width);
      return static_cast<const float*>(first ? inside : states);
    };
    auto after = [&](int norm) {
      if (!first) step_norm(own.norms[norm], states, states, rows, width);
    };
    float* past = asked.past + layer * asked.room * 2 * width;
    step_product({before(0), own.asked.weight, width, 3 * width, own.asked.bias, nullptr, false, wide}, rows);
    for (int64_t row = 0; row < rows; ++row)
      __builtin_memcpy(past + (entries - rows + row) * 2 * width, wide + (3 * row + 1) * width, 8 * width);
    for (int64_t row = 0; row < rows; ++row)
      step_look(asked, wide + 3 * row * width, past, seen + row * entries, counts[row], scores, context + row * width);
    step_product({context, own.output.weight, width, width, own.output.bias, states, false, states}, rows);
    after(0);
    const float* keys = asked.keys + layer * width * together;
    step_product({before(1), keys, width, together, asked.shifts + layer * together, nullptr, false, wide}, rows);
    for (int64_t row = 0; row < rows * asked.cross_heads; ++row) step_softmax(wide + row * items, items);
    const float* values = asked.values + layer * together * width;
    step_product({wide, values, together, width, own.cross_bias, states, false, states}, rows);
    after(1);
    step_product({before(2), own.inner.weight, width, asked.inner, own.inner.bias, nullptr, true, wide}, rows);
    step_product({wide, own.outer.weight, asked.inner, width, own.outer.bias, states, false, states}, rows);
    after(2);
  }
}
