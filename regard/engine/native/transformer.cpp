#include "transformer.h"

#include <cstring>

namespace regard {

FeedForward FeedForward::load(const File& file, const std::string& name, const std::string& side, int64_t width,
                              bool quantised) {
  FeedForward part;
  int64_t inner = file.integer(side + ".inner", 1, MOST_WIDTH);
  part.gated = file.flag(side + ".gated");
  part.activation = activation_of(file, side + ".activation");
  part.inner = Linear::load(file, name + ".inner", width, part.gated ? 2 * inner : inner, quantised);
  part.outer = Linear::load(file, name + ".outer", inner, width, quantised);
  return part;
}

void FeedForward::run(const Machine& machine, Room& room, const Rows& rows, const float* residual, float* out) const {
  float* values = room.inner.need(rows.count * inner.outputs());
  inner.run(machine, rows, values, gated ? Activation::none : activation);
  int64_t width = outer.weights.inputs;
  if (gated) {
    float* both = room.gated.need(rows.count * width);
    machine.kernels.gate(values, rows.count, width, activation, both);
    values = both;
  }
  outer.run(machine, machine.rows(room.bytes, values, rows.count, width), out, Activation::none, residual);
}

Side Side::load(const File& file, const std::string& name) {
  Side side;
  side.embedding = Embedding::load(file, name);
  side.width = side.embedding.width;
  side.heads = file.integer(name + ".heads", 1, 4096);
  side.key_heads = file.integer(name + ".key_heads", 1, side.heads);
  if (side.heads % side.key_heads) throw Refused(name + " has key heads that cannot serve its heads");
  side.head_width = file.integer(name + ".head_width", 1, MOST_WIDTH);
  side.layers = file.integer(name + ".layers", 1, MOST_LAYERS);
  side.scale = static_cast<float>(file.number(name + ".scale"));
  side.norm_first = file.flag(name + ".norm_first");
  side.positions = Positions::load(file, name, side.width, side.heads, side.head_width);
  if (file.flag(name + ".embedding_norm")) side.embedding_norm = Norm::load(file, name + ".embedding_norm", side.width);
  if (side.norm_first) side.norm = Norm::load(file, name + ".norm", side.width);
  return side;
}

SelfAttention Side::self_attention(const File& file, const std::string& name, bool quantised) const {
  SelfAttention attention;
  attention.all = Linear::load(file, name + ".all", width, all_width(), quantised);
  attention.output = Linear::load(file, name + ".output", query_width(), width, quantised);
  return attention;
}

void Side::turn(const Machine& machine, const PositionRoom& room, float* row, int64_t position) const {
  if (!positions.turns()) return;
  machine.kernels.turn(row, heads + key_heads, head_width, room.turns.data() + position * head_width);
}

float* Stream::begin(int64_t count, int64_t width) {
  count_ = count;
  width_ = width;
  quantised_ = false;
  return states_.need(count * width);
}

void Stream::ready(const Norm& norm) {
  if (!norm.there()) return;
  rows_ = norm.run(machine_, bytes_, states_.get(), count_, states_.get());
  quantised_ = true;
}

Rows Stream::enter(const Norm& norm) {
  if (norm_first_) return norm.run(machine_, bytes_, states_.get(), count_, normed_.need(count_ * width_));
  if (!quantised_) rows_ = machine_.rows(bytes_, states_.get(), count_, width_);
  quantised_ = true;
  return rows_;
}

void Stream::leave(const Norm& norm) {
  std::swap(states_, next_);
  if (norm_first_) return;
  rows_ = norm.run(machine_, bytes_, states_.get(), count_, states_.get());
  quantised_ = true;
}

Rows Stream::finish(const Norm& norm) { return enter(norm); }

}  // namespace regard
