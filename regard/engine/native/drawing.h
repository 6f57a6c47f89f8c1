// What one row may draw: the rules of regard/search/sampling.py, one after the other, each on what the one before has
// left. Weights are in proportion to probabilities; sums run in double precision.
#pragma once

#include <vector>

#include "layers.h"
#include "search.h"

namespace regard {

class Drawing {
 public:
  Drawing(const Kernels& kernels, const Sampling& sampling, int64_t vocabulary);

  int64_t panels() const { return panels_; }
  // Takes the logits of a row, in whole panels, with their normaliser; -inf is what may not come, and `largest` is
  // that of each panel without it. False: nothing may come.
  bool take(const float* logits, double normaliser, const std::vector<float>& largest);
  // The token where the running sum of the weights passes a number in [0, 1) of the whole.
  int32_t draw(double chance) const;

 private:
  // A token that may be drawn.
  struct Share {
    double weight;
    uint64_t key;  // what it is ordered by
    int32_t token;
  };

  double exponent(int32_t token) const;
  void keep_largest(int64_t count, const std::vector<float>& largest);
  void keep(double least);
  double whole() const;
  void sort();
  void keep_first(double mass);
  void nucleus(double mass);
  void typical(double mass);
  void sum_up();

  const Kernels& kernels_;
  const Sampling& sampling_;
  int64_t vocabulary_, panels_;
  const float* logits_ = nullptr;
  double normaliser_ = 0, best_ = 0;
  bool listed_ = false;           // whether what may be drawn stands in `shares_`; else it is all tokens by their ids
  std::vector<double> weights_;   // [panels * 64]
  std::vector<double> sums_;      // of each panel
  std::vector<Share> shares_, kept_;
  std::vector<double> running_;   // sums up to each share, or up to each panel
  std::vector<float> bounds_;
};

}  // namespace regard
