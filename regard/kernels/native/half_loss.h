// The loss of a wide vocabulary in half precision: logits, loss and gradients of a chunk of rows while they are in the
// cache. A logit becomes e = exp(logit - that of the label) as soon as it is there, and is never written as anything
// else. The sum of e divides afterwards what was made of it, and the label's share of errors is added apart.
//
// Shapes: R rows, C = LOSS_ROWS of them at a time, D width, V vocabulary.

static constexpr int64_t LOSS_PANELS = 4;      // of e that are made before the gradient for features is made of them
static constexpr float LOG2_E = 1.44269504088896341f;
static constexpr float NOTHING = -1e30f;  // the bias of padding

// 2^x for x < 127, by a polynomial whose relative error is 3e-6. NaN stays NaN; what is below 2^-126 becomes that.
static inline __attribute__((always_inline)) __m512 power_of_two(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-126.0f), x);  // of a number and NaN, NaN
  __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), rest = _mm512_sub_ps(x, whole);
  __m512 p = _mm512_set1_ps(0.00957010048f);
  p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.0559178602f));
  p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.240247449f));
  p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.693121815f));
  p = _mm512_fmadd_ps(p, rest, _mm512_set1_ps(0.999999261f));
  return _mm512_scalef_ps(p, whole);
}

// What is kept during one call, and where a chunk is worked on.
struct LossRoom {
  int64_t panels, across, pairs, depth;  // of V, of D; pairs of D, of V
  Pair *turned, *zipped;                 // W as the right factor of logits (panels of V), of a gradient (panels of D)
  float* shift;                          // (V) the bias, in powers of two
  Pair *rows, *scaled;                   // (C, D) features; times 1 / Σ e, zipped, in panels of D
  Pair* powers;                          // (panels of V, C, PANEL) e
  float *total, *inverse, *reference;    // (C, LANES) sums of e; (C) 1 / Σ e; (C) the label's logit
  int64_t size = 0;

  LossRoom(const Loss& asked, Pair* at)
      : panels(panels_of(asked.vocabulary)),
        across(panels_of(asked.width)),
        pairs(pairs_of(asked.width)),
        depth(pairs_of(asked.vocabulary)) {
    auto next = [&](int64_t words) {
      Pair* place = at ? at + size : nullptr;
      size += (words + 15) / 16 * 16;  // lines of a cache
      return place;
    };
    auto floats = [&](int64_t count) { return (float*)next(count); };
    turned = next(panels * pairs * PANEL), zipped = next(across * depth * PANEL);
    shift = floats(panels * PANEL);
    rows = next(LOSS_ROWS * pairs), scaled = next(across * LOSS_ROWS / 2 * PANEL);
    powers = next(panels * LOSS_ROWS * PANEL / 2);
    total = floats(LOSS_ROWS * LANES), inverse = floats(LOSS_ROWS), reference = floats(LOSS_ROWS);
  }

  Pair* powers_of(int64_t panel) const { return powers + panel * LOSS_ROWS * PANEL / 2; }
};

static int64_t loss_room(const Loss& asked) { return LossRoom(asked, nullptr).size; }

// Packs panels of the vocabulary.
static void loss_begin(const Loss& asked, int64_t from, int64_t to, uint32_t* at) {
  LossRoom room(asked, at);
  for (int64_t panel = from; panel < to; ++panel) {
    int64_t word = panel * PANEL, count = smaller(PANEL, asked.vocabulary - word);
    const float* weight = asked.weight + word * asked.width;
    turn_panel(weight, asked.width, count, asked.width, room.turned + panel * room.pairs * PANEL);
    for (int64_t part = 0; part < room.across; ++part)
      zip_panel(weight + part * PANEL, asked.width, count, smaller(PANEL, asked.width - part * PANEL),
                room.zipped + (part * room.depth + word / 2) * PANEL);
    for (int64_t column = 0; column < PANEL; ++column)
      room.shift[word + column] = column >= count ? NOTHING : asked.bias ? asked.bias[word + column] * LOG2_E : 0.0f;
  }
}

// As a factor of a product is. Where shares of labels are to be what is left of such products, they have the same ones.
static inline Lanes rounded(Lanes value) {
  __m256i half = (__m256i)_mm512_cvtneps_pbh((__m512)value);
  return (Lanes)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
}

static float label_logit(const Loss& asked, int64_t row) {
  const float *features = asked.features + row * asked.width, *weight = asked.weight + asked.labels[row] * asked.width;
  Lanes total = {};
  for (int64_t d = 0; d < asked.width; d += LANES) {
    int64_t count = smaller(LANES, asked.width - d);
    total += rounded(take(features + d, count)) * rounded(take(weight + d, count));
  }
  return sum(total) + (asked.bias ? asked.bias[asked.labels[row]] : 0.0f);
}

// Of some rows of a chunk and one panel of the vocabulary.
static void make_powers(const LossRoom& room, int64_t from, int64_t to, int64_t panel) {
  const Pair* right = room.turned + panel * room.pairs * PANEL;
  Half* powers = reinterpret_cast<Half*>(room.powers_of(panel));
  by_tiles(to - from, [&](auto tall, int64_t tile) {
    int64_t first = from + tile;
    auto sums = sums_of(tall);
    sums.clear();
    add_pairs(room.pairs, row_left(room.rows + first * room.pairs, room.pairs), right, sums);
    sums.end([&](int r, int c, __m512 sum) __attribute__((always_inline)) {
      __m512 shift = _mm512_loadu_ps(room.shift + panel * PANEL + 16 * c);
      shift = _mm512_sub_ps(shift, _mm512_set1_ps(room.reference[first + r] * LOG2_E));
      __m512 power = power_of_two(_mm512_fmadd_ps(sum, _mm512_set1_ps(LOG2_E), shift));
      float* total = room.total + (first + r) * LANES;
      _mm512_storeu_ps(total, _mm512_add_ps(_mm512_loadu_ps(total), power));
      put_some(powers + (first + r) * PANEL + 16 * c, power, 0xffff);
    });
  });
}

// Adds e W of some panels of the vocabulary to gradients for the features of some rows.
static void add_for_features(const Loss& asked, const LossRoom& room, int64_t start, int64_t from, int64_t to,
                             int64_t first, int64_t last) {
  for (int64_t part = 0; part < room.across; ++part) {
    Edge edge(asked.width - part * PANEL);
    by_tiles(to - from, [&](auto tall, int64_t tile) {
      float* out = asked.of_features + (start + from + tile) * asked.width + part * PANEL;
      auto sums = sums_of(tall);
      if (first)
        sums.load(out, asked.width, edge);
      else
        sums.clear();
      for (int64_t panel = first; panel < last; ++panel) {
        int64_t pair = panel * PANEL / 2;
        Left left = row_left(room.powers_of(panel) + (from + tile) * PANEL / 2, PANEL / 2);
        const Pair* right = room.zipped + (part * room.depth + pair) * PANEL;
        add_pairs(smaller(PANEL / 2, room.depth - pair), left, right, sums);
      }
      sums.save(out, asked.width, edge);
    });
  }
}

// The loss of rows of the chunk that starts at a row, and their gradients: (Σ e W) / Σ e, plus what all begin with, less the label's share.
static void loss_rows(const Loss& asked, int64_t start, int64_t from, int64_t to, uint32_t* at) {
  LossRoom room(asked, at);
  Tiles tiles;
  lay_rows(asked.features + (start + from) * asked.width, asked.width, to - from, asked.width,
           room.rows + from * room.pairs);
  for (int64_t row = from; row < to; ++row) {
    room.reference[row] = label_logit(asked, start + row);
    save(room.total + row * LANES, Lanes{});
  }
  for (int64_t first = 0; first < room.panels; first += LOSS_PANELS) {
    int64_t last = smaller(first + LOSS_PANELS, room.panels);
    for (int64_t panel = first; panel < last; ++panel) make_powers(room, from, to, panel);
    if (asked.of_features) add_for_features(asked, room, start, from, to, first, last);
  }
  for (int64_t row = from; row < to; ++row) {
    float whole = sum(load(room.total + row * LANES)), inverse = 1.0f / whole, logarithm = __builtin_logf(whole);
    room.inverse[row] = inverse;
    asked.chosen[start + row] = -logarithm;
    asked.normaliser[start + row] = room.reference[row] + logarithm;
    if (!asked.of_features) continue;
    float* out = asked.of_features + (start + row) * asked.width;
    const float* weight = asked.weight + asked.labels[start + row] * asked.width;
    for (int64_t d = 0; d < asked.width; d += LANES) {
      int64_t count = smaller(LANES, asked.width - d);
      Lanes even = take(asked.even_of_features + d, count), label = rounded(take(weight + d, count)) * asked.share;
      put(out + d, take(out + d, count) * inverse + even - label, count);
    }
  }
}

// Features of a chunk, divided by their sums of e.
static void loss_scale(const Loss& asked, int64_t start, int64_t count, uint32_t* at) {
  LossRoom room(asked, at);
  for (int64_t row = 0; row < count; row += 2)
    for (int64_t part = 0; part < room.across; ++part) {
      const float* upper = asked.features + (start + row) * asked.width + part * PANEL;
      bool whole = row + 1 < count;
      for (int64_t column = 0; column < PANEL; column += 16) {
        __mmask16 some = up_to(asked.width - part * PANEL - column);
        __m512 first = _mm512_maskz_loadu_ps(some, upper + column), second = _mm512_setzero_ps();
        if (whole) second = _mm512_maskz_loadu_ps(some, upper + asked.width + column);
        first = _mm512_mul_ps(first, _mm512_set1_ps(room.inverse[row]));
        if (whole) second = _mm512_mul_ps(second, _mm512_set1_ps(room.inverse[row + 1]));
        _mm512_storeu_si512(room.scaled + ((part * LOSS_ROWS + row) / 2) * PANEL + column, zipped_lanes(first, second));
      }
    }
}

// Adds eᵀ X / Σ e of a panel of the vocabulary to the gradient for its weights.
static void add_for_weight(const Loss& asked, const LossRoom& room, int64_t start, int64_t count, int64_t panel) {
  alignas(64) Pair turned[LOSS_ROWS / 2 * PANEL];
  lay_columns(reinterpret_cast<const Half*>(room.powers_of(panel)), PANEL, count, PANEL, turned);
  int64_t words = smaller(PANEL, asked.vocabulary - panel * PANEL), width = asked.width;
  for (int64_t part = 0; part < room.across; ++part) {
    Edge edge(width - part * PANEL);
    const Pair* right = room.scaled + part * LOSS_ROWS / 2 * PANEL;
    by_tiles(words, [&](auto tall, int64_t row) {
      float* out = asked.of_weight + (panel * PANEL + row) * width + part * PANEL;
      auto sums = sums_of(tall);
      sums.load(start ? out : asked.even_of_weight + part * PANEL, start ? width : 0, edge);
      add_pairs(pairs_of(count), column_left(turned, pairs_of(count), row), right, sums);
      sums.save(out, width, edge);
    });
  }
}

static void add_for_bias(const Loss& asked, const LossRoom& room, int64_t start, int64_t count, int64_t panel) {
  const Half* powers = reinterpret_cast<const Half*>(room.powers_of(panel));
  for (int64_t column = 0; column < PANEL; column += LANES) {
    int64_t word = panel * PANEL + column, some = smaller(LANES, asked.vocabulary - word);
    if (some <= 0) break;
    Lanes total = start ? take(asked.of_bias + word, some) : all(asked.even_of_bias);
    for (int64_t row = 0; row < count; ++row) total += load(powers + row * PANEL + column) * room.inverse[row];
    put(asked.of_bias + word, total, some);
  }
}

// Adds to the gradients of words in some panels what `count` rows from `start` on have to do with them.
static void loss_words(const Loss& asked, int64_t start, int64_t count, int64_t from, int64_t to, uint32_t* at) {
  LossRoom room(asked, at);
  Tiles tiles;
  for (int64_t panel = from; panel < to; ++panel) {
    if (asked.of_weight) add_for_weight(asked, room, start, count, panel);
    if (asked.of_bias) add_for_bias(asked, room, start, count, panel);
  }
  for (int64_t row = start; row < start + count; ++row) {
    int64_t label = asked.labels[row];
    float inverse = room.inverse[row - start];
    if (label < from * PANEL || label >= to * PANEL) continue;
    if (asked.of_bias) asked.of_bias[label] -= asked.share;
    for (int64_t d = 0; asked.of_weight && d < asked.width; d += LANES) {
      int64_t some = smaller(LANES, asked.width - d);
      Lanes scaled = rounded(take(asked.features + row * asked.width + d, some) * inverse);
      add_to(asked.of_weight + label * asked.width + d, scaled * (-asked.share / inverse), some);
    }
  }
}
