// What is done to each row: dropout, alone and with the sum, the norm or the ReLU beside it, and their gradients.

// Sixteen bits of randomness for each number. A row has blocks of 32 columns, a block 16 words: the lower halves are for
// its first 16 columns, the upper ones for the others. A word is a mix of its number with keys made of the seed: three
// products with odd constants and shifts between them, each of which lets every bit depend on more of the others.
static inline Words mixed(const Chance& chance, uint32_t high, uint32_t low) {
  Words word = counting() + (low + chance.keys[0]);
  word ^= high * 0x9e3779b9u;
  word ^= word >> 17;
  word *= 0xed5ad4bbu;
  word += chance.keys[1];
  word ^= word >> 11;
  word *= 0xac4c1b51u;
  word ^= chance.keys[2];
  word ^= word >> 15;
  word *= 0x31848babu;
  word ^= word >> 14;
  return word;
}

static inline Lanes kept(const Chance& chance, Words bits) {
  return reinterpret_cast<Integers>(bits) < static_cast<int32_t>(chance.limit) ? Lanes{} : all(chance.scale);
}

#define REGARD_INLINED __attribute__((always_inline))  // wherever it is called from, with what is constant there

// visit(column, count) for all vectors of a row. For whole ones the count is a constant, of which nothing is left.
template <class Visit>
static inline __attribute__((always_inline)) void by_vectors(int64_t width, Visit visit) {
  int64_t column = 0;
  for (; column + LANES <= width; column += LANES) visit(column, LANES);
  if (column < width) visit(column, width - column);
}

// visit(column, count, factors) for all columns of a row.
template <class Visit>
static inline __attribute__((always_inline)) void drawn(const Chance& chance, int64_t row, int64_t width, Visit visit) {
  if (!chance.limit)
    return by_vectors(width, [&](int64_t column, int64_t count) REGARD_INLINED { visit(column, count, all(1.0f)); });
  uint64_t word = static_cast<uint64_t>(row) * static_cast<uint64_t>((width + 31) / 32 * 16);
  auto bits_of = [&](int64_t place) {
    uint64_t number = word + static_cast<uint64_t>(place);
    return mixed(chance, static_cast<uint32_t>(number >> 32), static_cast<uint32_t>(number));
  };
  int64_t block = 0;
  for (; block + 32 <= width; block += 32, word += 16)
    for (int64_t part = 0; part < 16; part += LANES) {
      Words bits = bits_of(part);
      visit(block + part, LANES, kept(chance, bits & 0xffff));
      visit(block + part + 16, LANES, kept(chance, bits >> 16));
    }
  for (int64_t part = 0; part < 16 && block + part < width; part += LANES) {
    int64_t column = block + part;
    Words bits = bits_of(part);
    visit(column, smaller(LANES, width - column), kept(chance, bits & 0xffff));
    column += 16;
    if (column < width) visit(column, smaller(LANES, width - column), kept(chance, bits >> 16));
  }
}

static void dropped(const Dropped& asked, int64_t from, int64_t to) {
  for (int64_t row = from; row < to; ++row) {
    const float* result = asked.result + row * asked.width;
    const float* states = asked.states ? asked.states + row * asked.width : nullptr;
    float* out = asked.out + row * asked.width;
    if (states)
      drawn(asked.chance, row, asked.width, [&](int64_t column, int64_t count, Lanes factors) REGARD_INLINED {
        put(out + column, take(states + column, count) + take(result + column, count) * factors, count);
      });
    else
      drawn(asked.chance, row, asked.width, [&](int64_t column, int64_t count, Lanes factors) REGARD_INLINED {
        put(out + column, take(result + column, count) * factors, count);
      });
  }
}

template <class Number>
static void rectified_rows(const Rectified& asked, int64_t from, int64_t to) {
  for (int64_t row = from; row < to; ++row) {
    const Number* in = static_cast<const Number*>(asked.in) + row * asked.width;
    Number* out = static_cast<Number*>(asked.out) + row * asked.width;
    drawn(asked.chance, row, asked.width, [&](int64_t column, int64_t count, Lanes factors) REGARD_INLINED {
      Lanes value = take(in + column, count) + take(asked.bias + column, count);
      put(out + column, (value < Lanes{} ? Lanes{} : value) * factors, count);  // NaN stays NaN
    });
  }
}

static void rectified(const Rectified& asked, int64_t from, int64_t to) {
  (asked.narrow ? rectified_rows<Half> : rectified_rows<float>)(asked, from, to);
}

template <class Number>
static void rectified_backward_blocks(const Rectified& asked, int64_t from, int64_t to) {
  int64_t width = asked.width;
  auto gradient = static_cast<const Number*>(asked.gradient), in = static_cast<const Number*>(asked.in);
  auto out = static_cast<Number*>(asked.out);
  for (int64_t block = from; block < to; ++block) {
    float* sums = asked.sums + block * width;
    for (int64_t column = 0; column < width; ++column) sums[column] = 0;
    int64_t end = smaller(asked.rows, (block + 1) * BLOCK);
    for (int64_t row = block * BLOCK; row < end; ++row)
      by_vectors(width, [&](int64_t column, int64_t count) REGARD_INLINED {
        int64_t place = row * width + column;
        Lanes value = take(gradient + place, count) * asked.chance.scale;
        value = take(in + place, count) <= Lanes{} ? Lanes{} : value;
        put(out + place, value, count);
        put(sums + column, take(sums + column, count) + value, count);
      });
  }
}

static void rectified_backward(const Rectified& asked, int64_t from, int64_t to) {
  (asked.narrow ? rectified_backward_blocks<Half> : rectified_backward_blocks<float>)(asked, from, to);
}

template <class Number>
static void normed_rows(const Normed& asked, int64_t from, int64_t to) {
  int64_t width = asked.width;
  float share = 1.0f / static_cast<float>(width);
  for (int64_t row = from; row < to; ++row) {
    const float* states = asked.states + row * width;
    const Number* product = static_cast<const Number*>(asked.product) + row * width;
    float* standard = asked.standard + row * width;
    float* out = asked.out + row * width;
    Lanes total = {};
    drawn(asked.chance, row, width, [&](int64_t column, int64_t count, Lanes factors) REGARD_INLINED {
      Lanes result = take(product + column, count) + take(asked.shift + column, count);
      Lanes value = take(states + column, count) + result * factors;
      put(standard + column, value, count);
      total += value;
    });
    float mean = sum(total) * share;
    Lanes squares = {};
    by_vectors(width, [&](int64_t column, int64_t count) REGARD_INLINED {
      Lanes apart = take(standard + column, count) - mean;
      if (count < LANES) apart = only(apart, count);
      squares += apart * apart;
    });
    float inverse = 1.0f / __builtin_sqrtf(sum(squares) * share + asked.epsilon);
    asked.inverse[row] = inverse;
    by_vectors(width, [&](int64_t column, int64_t count) REGARD_INLINED {
      Lanes value = (take(standard + column, count) - mean) * inverse;
      put(standard + column, value, count);
      put(out + column, value * take(asked.gain + column, count) + take(asked.bias + column, count), count);
    });
  }
}

static void normed(const Normed& asked, int64_t from, int64_t to) {
  (asked.narrow ? normed_rows<Half> : normed_rows<float>)(asked, from, to);
}

static inline void add_to(float* sums, Lanes value, int64_t count) { put(sums, take(sums, count) + value, count); }

template <class Number>
static void normed_backward_row(const NormedBackward& asked, int64_t row, float* sums) {
  int64_t width = asked.width;
  float *of_gain = sums, *of_bias = sums + width, *of_shift = sums + 2 * width;
  float share = 1.0f / static_cast<float>(width), inverse = asked.inverse[row];
  const float* gradient = asked.gradient + row * width;
  const float* standard = asked.standard + row * width;
  float* of_states = asked.of_states + row * width;
  Lanes total = {}, along = {};
  by_vectors(width, [&](int64_t column, int64_t count) REGARD_INLINED {
    Lanes given = take(gradient + column, count), made = take(standard + column, count);
    Lanes inner = given * take(asked.gain + column, count);
    total += inner;
    along += inner * made;
    add_to(of_gain + column, given * made, count);
    add_to(of_bias + column, given, count);
  });
  float mean = sum(total) * share, slope = sum(along) * share;
  Number* of_product = asked.of_product ? static_cast<Number*>(asked.of_product) + row * width : nullptr;
  drawn(asked.chance, row, width, [&](int64_t column, int64_t count, Lanes factors) REGARD_INLINED {
    Lanes inner = take(gradient + column, count) * take(asked.gain + column, count);
    Lanes value = (inner - mean - take(standard + column, count) * slope) * inverse;
    put(of_states + column, value, count);
    value *= factors;
    if (of_product) put(of_product + column, value, count);
    add_to(of_shift + column, value, count);
  });
}

static void normed_backward(const NormedBackward& asked, int64_t from, int64_t to) {
  for (int64_t block = from; block < to; ++block) {
    float* sums = asked.sums + block * 3 * asked.width;
    for (int64_t column = 0; column < 3 * asked.width; ++column) sums[column] = 0;
    int64_t end = smaller(asked.rows, (block + 1) * BLOCK);
    for (int64_t row = block * BLOCK; row < end; ++row)
      (asked.narrow ? normed_backward_row<Half> : normed_backward_row<float>)(asked, row, sums);
  }
}

// A few passes over a row of logits while it is in the nearest cache.
template <class Number>
static void peaked_rows(const Peaked& asked, int64_t from, int64_t to) {
  int64_t width = asked.width;
  for (int64_t row = from; row < to; ++row) {
    Number* logits = static_cast<Number*>(asked.logits) + row * width;
    Number* label = logits + asked.labels[row];
    float wanted = take(label, 1)[0];
    Lanes most[4] = {all(wanted), all(wanted), all(wanted), all(wanted)};
    int64_t column = 0;
    for (; column + 4 * LANES <= width; column += 4 * LANES)
      for (int64_t part = 0; part < 4; ++part) most[part] = larger(load(logits + column + part * LANES), most[part]);
    float top = largest(larger(larger(most[0], most[1]), larger(most[2], most[3])));
    for (; column < width; ++column) {
      float value = take(logits + column, 1)[0];
      top = value > top ? value : top;
    }
    Lanes total[2] = {};
    for (column = 0; column + 2 * LANES <= width; column += 2 * LANES)
      for (int64_t part = 0; part < 2; ++part) {
        Lanes value = exponential(load(logits + column + part * LANES) - top);
        if (asked.writes) save(logits + column + part * LANES, value);
        total[part] += value;
      }
    for (; column < width; column += LANES) {
      int64_t count = smaller(LANES, width - column);
      Lanes value = exponential(take(logits + column, count) - top);
      if (count < LANES) value = only(value, count);
      if (asked.writes) put(logits + column, value, count);
      total[0] += value;
    }
    float whole = sum(total[0] + total[1]);
    float normaliser = top + __builtin_logf(whole);
    asked.normaliser[row] = normaliser;
    asked.chosen[row] = wanted - normaliser;
    asked.inverse[row] = 1.0f / whole;
    if (asked.writes) put(label, exponential(all(wanted - top)) - asked.share * whole, 1);
  }
}

static void peaked(const Peaked& asked, int64_t from, int64_t to) {
  (asked.narrow ? peaked_rows<Half> : peaked_rows<float>)(asked, from, to);
}
