// What Transformer encoders and decoders share.
#pragma once

#include "model.h"

namespace regard {

// The position-wise part: activation(x W_1 + b_1) W_2 + b_2, or (activation(x W) * x V) W_2.
struct FeedForward {
  bool gated = false;
  Activation activation = Activation::none;
  Linear inner, outer;

  struct Room {
    Buffer<float> inner, gated;
    Bytes bytes;
  };
  static FeedForward load(const File& file, const std::string& name, const std::string& side, int64_t width,
                          bool quantised);
  // out = feed-forward(rows) + residual.
  void run(const Machine& machine, Room& room, const Rows& rows, const float* residual, float* out) const;
};

// Self-attention: queries, keys and values of all heads side by side.
struct SelfAttention {
  Linear all, output;
};

// The sizes of one side.
struct Side {
  int64_t width = 0, heads = 0, key_heads = 0, head_width = 0, layers = 0;
  float scale = 0;  // of scores
  bool norm_first = false;
  Embedding embedding;
  Positions positions;
  Norm embedding_norm, norm;

  static Side load(const File& file, const std::string& side);
  SelfAttention self_attention(const File& file, const std::string& name, bool quantised) const;
  int64_t query_width() const { return heads * head_width; }
  int64_t key_width() const { return key_heads * head_width; }
  int64_t all_width() const { return query_width() + 2 * key_width(); }
  // Turns queries and keys of a row that stands at a position.
  void turn(const Machine& machine, const PositionRoom& room, float* row, int64_t position) const;
};

// States x with their residual connections and norms: LayerNorm(x + part(x)), or x + part(LayerNorm(x)).
class Stream {
 public:
  Stream(const Machine& machine, bool norm_first) : machine_(machine), norm_first_(norm_first) {}
  float* begin(int64_t count, int64_t width);  // room for the first states
  // The states are there; `norm` is that of embeddings or of nothing.
  void ready(const Norm& norm);
  Rows enter(const Norm& norm);  // what a part sees
  float* states() const { return states_.get(); }
  float* next() { return next_.need(count_ * width_); }  // where x + part(...) goes
  void leave(const Norm& norm);                           // `next()` is filled
  Rows finish(const Norm& norm);                          // the last norm, where there is one

 private:
  const Machine& machine_;
  bool norm_first_, quantised_ = false;
  int64_t count_ = 0, width_ = 0;
  Buffer<float> states_, next_, normed_;
  Bytes bytes_;
  Rows rows_;
};

}  // namespace regard
