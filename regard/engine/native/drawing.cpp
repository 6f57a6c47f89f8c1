#include "drawing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace regard {
namespace {

constexpr size_t FEW = 256;  // are not worth the tables that many are sorted with

// The bits of numbers from 0 on are in the order of the numbers.
uint64_t bits(double number) {
  uint64_t made;
  std::memcpy(&made, &number, sizeof made);
  return made;
}

}  // namespace

Drawing::Drawing(const Kernels& kernels, const Sampling& sampling, int64_t vocabulary)
    : kernels_(kernels),
      sampling_(sampling),
      vocabulary_(vocabulary),
      panels_((vocabulary + PANEL - 1) / PANEL),
      weights_(panels_ * PANEL),
      sums_(panels_) {}

bool Drawing::take(const float* logits, double normaliser, const std::vector<float>& largest) {
  logits_ = logits;
  normaliser_ = normaliser;
  float top = *std::max_element(largest.begin(), largest.end());
  best_ = static_cast<double>(static_cast<float>(static_cast<double>(top) - normaliser));
  if (!(best_ > -INFINITY)) return false;  // nothing may come, or nothing that is possible in single precision
  shares_.clear();
  listed_ = sampling_.top_k.has_value();
  if (listed_)
    keep_largest(*sampling_.top_k, largest);
  else
    kernels_.weigh(logits, panels_, normaliser, best_, sampling_.temperature, weights_.data(), sums_.data());
  if (sampling_.top_p) nucleus(*sampling_.top_p);
  if (sampling_.min_p) keep(*sampling_.min_p);  // the largest weight is 1
  if (sampling_.typical) typical(*sampling_.typical);
  sum_up();
  return true;
}

int32_t Drawing::draw(double chance) const {
  double all = running_.back(), aim = std::min(chance * all, std::nextafter(all, 0.0));
  int64_t place = std::upper_bound(running_.begin(), running_.end(), aim) - running_.begin();
  if (listed_) return shares_[place].token;
  double sum = place ? running_[place - 1] : 0.0;
  int64_t token = place * PANEL, last = token;
  for (int64_t end = token + PANEL; token < end; ++token) {
    sum += weights_[token];
    if (sum > aim) return static_cast<int32_t>(token);
    if (weights_[token] > 0) last = token;
  }
  return static_cast<int32_t>(last);  // the sum of a panel is made in another order
}

// log of the weight of a token.
double Drawing::exponent(int32_t token) const {
  double said = static_cast<double>(static_cast<float>(static_cast<double>(logits_[token]) - normaliser_));
  return (said - best_) / sampling_.temperature;
}

// So many of the largest weights, in the order of ids. The largest logits of panels bound them from below.
void Drawing::keep_largest(int64_t count, const std::vector<float>& largest) {
  float bound = -INFINITY;
  if (count < panels_) {
    bounds_ = largest;
    std::nth_element(bounds_.begin(), bounds_.begin() + (count - 1), bounds_.end(), std::greater<float>());
    bound = bounds_[count - 1];
  }
  for (int64_t panel = 0; panel < panels_; ++panel) {
    if (largest[panel] < bound) continue;
    for (int64_t token = panel * PANEL; token < std::min((panel + 1) * PANEL, vocabulary_); ++token)
      if (logits_[token] >= bound && logits_[token] > -INFINITY)
        shares_.push_back(Share{0, 0, static_cast<int32_t>(token)});
  }
  if (static_cast<int64_t>(shares_.size()) > count) {
    std::nth_element(shares_.begin(), shares_.begin() + count, shares_.end(), [&](const Share& one, const Share& other) {
      float logit = logits_[one.token], another = logits_[other.token];
      return logit != another ? logit > another : one.token < other.token;
    });
    shares_.resize(count);
    std::sort(shares_.begin(), shares_.end(),
              [](const Share& one, const Share& other) { return one.token < other.token; });
  }
  for (Share& share : shares_) share.weight = std::exp(exponent(share.token));
}

// Those of at least this weight, in the order they are in; what has none is left out in any case.
void Drawing::keep(double least) {
  auto enough = [&](double weight) { return weight >= least && weight > 0; };
  if (listed_) {
    shares_.erase(std::remove_if(shares_.begin(), shares_.end(), [&](const Share& one) { return !enough(one.weight); }),
                  shares_.end());
    return;
  }
  listed_ = true;
  for (int64_t panel = 0; panel < panels_; ++panel) {
    if (!enough(sums_[panel])) continue;
    for (int64_t token = panel * PANEL; token < (panel + 1) * PANEL; ++token)
      if (enough(weights_[token])) shares_.push_back(Share{weights_[token], 0, static_cast<int32_t>(token)});
  }
}

double Drawing::whole() const {
  double total = 0;
  if (listed_)
    for (const Share& share : shares_) total += share.weight;
  else
    for (double sum : sums_) total += sum;
  return total;
}

// By their keys; of equals, those stay in front that are. Of many, the last 20 bits are left out: logits are not so exact.
void Drawing::sort() {
  if (shares_.size() < FEW) {
    std::stable_sort(shares_.begin(), shares_.end(),
                     [](const Share& one, const Share& other) { return one.key < other.key; });
    return;
  }
  kept_.resize(shares_.size());
  for (int shift = 20; shift < 64; shift += 11) {
    uint32_t places[2048] = {}, before = 0;
    for (const Share& share : shares_) ++places[share.key >> shift & 2047];
    for (uint32_t& place : places) {
      uint32_t count = place;
      place = before;
      before += count;
    }
    for (const Share& share : shares_) kept_[places[share.key >> shift & 2047]++] = share;
    shares_.swap(kept_);
  }
}

// The smallest set of this mass of those in front.
void Drawing::keep_first(double mass) {
  size_t count = 0;
  for (double sum = 0; count < shares_.size() && sum < mass; ++count) sum += shares_[count].weight;
  shares_.resize(count);
}

// The smallest set of most probable tokens (Holtzman et al. 2020). All C tokens with less than (1 - p) / C of the whole
// have less than 1 - p together, so none of them is in the set.
void Drawing::nucleus(double mass) {
  double all = whole(), count = static_cast<double>(listed_ ? static_cast<int64_t>(shares_.size()) : vocabulary_);
  keep((1 - mass) / count * all * (1 - 1e-9));  // which may come out a little too large
  for (Share& share : shares_) share.key = bits(1.0) - bits(share.weight);
  sort();
  keep_first(mass * all);
}

// The smallest set whose surprise -log p is closest to its expectation, the entropy (Meister et al. 2023).
void Drawing::typical(double mass) {
  keep(0);
  double all = whole(), log_all = std::log(all), entropy = 0;
  for (const Share& share : shares_) entropy += share.weight / all * (log_all - exponent(share.token));
  for (Share& share : shares_) share.key = bits(std::fabs(log_all - exponent(share.token) - entropy));
  sort();
  keep_first(mass * all);
}

void Drawing::sum_up() {
  running_.clear();
  double sum = 0;
  if (listed_)
    for (const Share& share : shares_) running_.push_back(sum += share.weight);
  else
    for (double one : sums_) running_.push_back(sum += one);
}

}  // namespace regard
