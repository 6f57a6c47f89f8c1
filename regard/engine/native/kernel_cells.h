// The elementwise parts of feed-forward networks, positions and recurrent cells.

static void gate(const float* in, int64_t rows, int64_t width, Activation activation, float* out) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < width; column += LANES) {
      const float* from = in + row * 2 * width;
      Lanes value = activated(part(from, column, width), activation) * part(from + width, column, width);
      keep(out + row * width, value, column, width);
    }
}

static void activate(float* values, int64_t count, Activation activation) {
  for (int64_t column = 0; column < count; column += LANES)
    keep(values, activated(part(values, column, count), activation), column, count);
}

static void turn(float* row, int64_t heads, int64_t width, const float* turns) {
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t pair = 0; pair < width / 2; ++pair) {
      float* two = row + head * width + 2 * pair;
      float even = two[0], odd = two[1], cosine = turns[pair], sine = turns[width / 2 + pair];
      two[0] = even * cosine - odd * sine;
      two[1] = even * sine + odd * cosine;
    }
}

static void lstm(const float* total, const float* memory, int64_t width, float* state, float* new_memory) {
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes into = shrunk(part(total, column, width)), candidate = shrunk(2.0f * part(total + 2 * width, column, width));
    Lanes held = logistic(part(total + width, column, width)) * part(memory, column, width);
    held += (1.0f - candidate) * reciprocal((1.0f + into) * (1.0f + candidate));
    keep(new_memory, held, column, width);
    Lanes out = shrunk(part(total + 3 * width, column, width)), small = shrunk(2.0f * held);
    keep(state, (1.0f - small) * reciprocal((1.0f + out) * (1.0f + small)), column, width);
  }
}

static void gru(const float* products, const float* recurrent, const float* state, int64_t width, float* out) {
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes reset = logistic(part(products, column, width) + part(recurrent, column, width));
    Lanes update = logistic(part(products + width, column, width) + part(recurrent + width, column, width));
    Lanes candidate = hyperbolic_tangent(part(products + 2 * width, column, width) +
                                         reset * part(recurrent + 2 * width, column, width));
    keep(out, candidate + update * (part(state, column, width) - candidate), column, width);
  }
}

static void gru_cho_gates(const float* total, const float* state, int64_t width, float* reset, float* update) {
  for (int64_t column = 0; column < width; column += LANES) {
    keep(reset, logistic(part(total, column, width)) * part(state, column, width), column, width);
    keep(update, logistic(part(total + width, column, width)), column, width);
  }
}

static void gru_cho_blend(const float* total, const float* state, const float* update, int64_t width, float* out) {
  for (int64_t column = 0; column < width; column += LANES) {
    Lanes candidate = hyperbolic_tangent(part(total, column, width)), old = part(state, column, width);
    keep(out, old + part(update, column, width) * (candidate - old), column, width);
  }
}
