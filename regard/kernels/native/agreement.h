// Two draws of the same row that must agree: what their losses and their divergence mean for logits, in two visits to
// both rows while they are in the cache.

template <class Number>
static void agreed_rows(const Agreed& asked, int64_t from, int64_t to) {
  int64_t width = asked.width;
  for (int64_t row = from; row < to; ++row) {
    const float *first = asked.logits + row * width, *second = asked.logits + (asked.pairs + row) * width;
    float tops[2] = {first[0], second[0]};
    for (int64_t column = 0; column < width; column += LANES) {
      int64_t count = smaller(LANES, width - column);
      if (count == LANES) {
        tops[0] = tops[0] > largest(load(first + column)) ? tops[0] : largest(load(first + column));
        tops[1] = tops[1] > largest(load(second + column)) ? tops[1] : largest(load(second + column));
      } else {
        for (int64_t one = column; one < width; ++one) {
          tops[0] = tops[0] > first[one] ? tops[0] : first[one];
          tops[1] = tops[1] > second[one] ? tops[1] : second[one];
        }
      }
    }
    Lanes sums[2] = {}, apart[2] = {}, plain[2] = {};
    float offset = tops[0] - tops[1];  // draws may differ by much that means nothing
    for (int64_t column = 0; column < width; column += LANES) {
      int64_t count = smaller(LANES, width - column);
      Lanes one = take(first + column, count), other = take(second + column, count);
      Lanes between = one - other - offset;
      Lanes powers[2] = {exponential(one - tops[0]), exponential(other - tops[1])};
      for (int side = 0; side < 2; ++side) {
        if (count < LANES) powers[side] = only(powers[side], count);
        sums[side] += powers[side];
        apart[side] += powers[side] * between;
      }
      plain[0] += one;
      plain[1] += other;
    }
    float normalisers[2], means[2];
    int64_t label = asked.labels[row];
    for (int side = 0; side < 2; ++side) {
      float whole = sum(sums[side]);
      normalisers[side] = tops[side] + __builtin_logf(whole);
      means[side] = sum(apart[side]) / whole;
      int64_t place = side * asked.pairs + row;
      asked.likelihood[place] = normalisers[side] - (side ? second : first)[label];
      asked.uniform[place] = normalisers[side] - sum(plain[side]) / static_cast<float>(width);
    }
    float shift = normalisers[0] - normalisers[1], rest = offset - shift;
    asked.divergence[row] = 0.5f * (means[0] - means[1]);
    if (!asked.errors) continue;
    auto* errors = static_cast<Number*>(asked.errors);
    Number *of_first = errors + row * width, *of_second = errors + (asked.pairs + row) * width;
    float half = 0.5f * asked.weight, even = 0.5f * asked.even;
    for (int64_t column = 0; column < width; column += LANES) {
      int64_t count = smaller(LANES, width - column);
      Lanes one = take(first + column, count), other = take(second + column, count);
      Lanes p = exponential(one - normalisers[0]), q = exponential(other - normalisers[1]);
      Lanes between = one - other - shift, more = p - q;  // log p - log q
      Lanes errs[2] = {0.5f * p - even + half * (p * (between - (means[0] + rest)) + more),
                       0.5f * q - even - half * (q * (between - (means[1] + rest)) + more)};
      if (label >= column && label < column + count)
        for (int side = 0; side < 2; ++side) errs[side][label - column] -= 0.5f * asked.share;
      put(of_first + column, errs[0], count);
      put(of_second + column, errs[1], count);
    }
  }
}

static void agreed(const Agreed& asked, int64_t from, int64_t to) {
  (asked.narrow ? agreed_rows<Half> : agreed_rows<float>)(asked, from, to);
}
