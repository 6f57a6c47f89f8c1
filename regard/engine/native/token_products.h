// Products of a linear map with embeddings, kept for tokens that come again.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "model.h"

namespace regard {

class TokenProducts {
 public:
  TokenProducts(const Machine& machine, const Embedding& embedding, const Linear& linear)
      : machine_(machine), embedding_(embedding), linear_(linear) {}

  // Of each row [outputs]; as long as nothing else is asked for.
  const float* const* of(const std::vector<StepRow>& rows) {
    int64_t count = static_cast<int64_t>(rows.size()), width = linear_.outputs();
    found_.resize(count);
    if (2 * count > places()) forget(std::max(2 * count, std::min(embedding_.vocabulary, ROOM / width)));
    try {
      add(rows);
    } catch (...) {
      forget(places());
      throw;
    }
    for (int64_t row = 0; row < count; ++row) found_[row] = kept_.get() + place_[rows[row].token] * width;
    return found_.data();
  }

 private:
  static constexpr int64_t ROOM = int64_t{1} << 21;  // numbers that are kept, 8 MB

  int64_t places() const { return static_cast<int64_t>(token_.size()); }

  void forget(int64_t places) {
    token_.clear();
    kept_.need(places * linear_.outputs());
    place_.assign(embedding_.vocabulary, -1);
    last_.assign(places, -1);
    token_.assign(places, -1);
  }

  // Makes what is not there; it takes the places of tokens that are not in these rows, in turn.
  void add(const std::vector<StepRow>& rows) {
    ++now_;
    for (const StepRow& row : rows)
      if (place_[row.token] >= 0) last_[place_[row.token]] = now_;
    missing_.clear();
    for (const StepRow& row : rows) {
      if (place_[row.token] >= 0) continue;
      do hand_ = (hand_ + 1) % places();
      while (last_[hand_] == now_);
      if (token_[hand_] >= 0) place_[token_[hand_]] = -1;
      token_[hand_] = row.token;
      place_[row.token] = hand_;
      last_[hand_] = now_;
      missing_.push_back(row.token);
    }
    int64_t count = static_cast<int64_t>(missing_.size()), width = linear_.outputs();
    if (!count) return;
    float* embedded = embedded_.need(count * embedding_.width);
    for (int64_t index = 0; index < count; ++index)
      embedding_.look_up(missing_[index], embedded + index * embedding_.width);
    float* made = made_.need(count * width);
    linear_.run(machine_, machine_.rows(bytes_, embedded, count, embedding_.width), made);
    for (int64_t index = 0; index < count; ++index)
      std::memcpy(kept_.get() + place_[missing_[index]] * width, made + index * width, sizeof(float) * width);
  }

  const Machine& machine_;
  const Embedding& embedding_;
  const Linear& linear_;
  int64_t now_ = 0, hand_ = 0;
  std::vector<int64_t> place_;   // of a token; -1: none
  std::vector<int32_t> token_;   // at a place; -1: none
  std::vector<int64_t> last_;    // when a place was last used
  std::vector<int32_t> missing_;
  std::vector<const float*> found_;
  Buffer<float> kept_, embedded_, made_;
  Bytes bytes_;
};

}  // namespace regard
