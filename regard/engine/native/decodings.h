// Decodings of small searches, kept for the next one: with their room, and what they know of tokens.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "model.h"

namespace regard {

class Decodings {
 public:
  // One for so many sentences and rows of each that is not in use, or null.
  std::unique_ptr<Decoding> take(int64_t slots, int64_t beam) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t index = 0; index < kept_.size(); ++index) {
      if (kept_[index].slots != slots || kept_[index].beam != beam) continue;
      std::swap(kept_[index], kept_.back());
      std::unique_ptr<Decoding> taken = std::move(kept_.back().decoding);
      kept_.pop_back();
      return taken;
    }
    return nullptr;
  }

  // Of a search that came to its end: no sentence is in it any more. The oldest makes room.
  void give(std::unique_ptr<Decoding> decoding, int64_t slots, int64_t beam) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (kept_.size() >= MOST) kept_.erase(kept_.begin());
    kept_.push_back(Kept{slots, beam, std::move(decoding)});
  }

 private:
  static constexpr size_t MOST = 4;
  struct Kept {
    int64_t slots, beam;
    std::unique_ptr<Decoding> decoding;
  };
  std::mutex mutex_;
  std::vector<Kept> kept_;
};

}  // namespace regard
