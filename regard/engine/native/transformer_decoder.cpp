#include <algorithm>
#include <cstring>

#include "transformer.h"

namespace regard {
namespace {

struct Layer {
  SelfAttention attention;
  MemoryAttention cross;
  Norm around_attention, around_cross, around_feedforward;
  FeedForward feedforward;
};

class TransformerDecoder : public Decoder {
 public:
  TransformerDecoder(const File& file, bool quantised, const Encoder* encoder) : side(Side::load(file, "decoder")) {
    vocabulary = side.embedding.vocabulary;
    longest = side.positions.longest();
    crosses = encoder != nullptr;
    output = Linear::load(file, "decoder.output", side.width, vocabulary, quantised);
    for (int64_t index = 0; index < side.layers; ++index) {
      std::string name = "decoder." + std::to_string(index);
      Layer layer;
      layer.attention = side.self_attention(file, name + ".attention", quantised);
      layer.around_attention = Norm::load(file, name + ".around_attention", side.width);
      if (crosses) {
        layer.cross = MemoryAttention::load(file, name + ".cross", side.width, encoder->memory_width, quantised);
        if (!layer.cross.has_output || layer.cross.context_width() != side.width)
          throw Refused(name + ".cross gives contexts of another width");
        layer.around_cross = Norm::load(file, name + ".around_cross", side.width);
        attention_heads.push_back(layer.cross.heads);
      }
      layer.around_feedforward = Norm::load(file, name + ".around_feedforward", side.width);
      layer.feedforward = FeedForward::load(file, name + ".feedforward", "decoder", side.width, quantised);
      layers.push_back(layer);
    }
  }

  std::unique_ptr<Decoding> decoding(const Machine& machine, int64_t slots, int64_t beam) const override;

  Side side;
  bool crosses = false;
  std::vector<Layer> layers;
};

// Keys and values of what was read are written once and never moved: those of a row at a position lie in the block of
// its sentence and position, at the row's place then. A row knows the places of its ancestors.
class TransformerDecoding : public Decoding {
 public:
  TransformerDecoding(const TransformerDecoder& decoder, const Machine& machine, int64_t slots, int64_t beam)
      : decoder_(decoder), side_(decoder.side), machine_(machine), stream_(machine, decoder.side.norm_first) {
    head_ = machine.quantised ? pair_room(side_.head_width) : side_.head_width;
    both_ = 2 * side_.key_heads * head_;
    block_ = beam * side_.layers * both_;
    beam_ = beam;
    slots_.resize(slots);
    for (Slot& slot : slots_) slot.held.resize(decoder.crosses ? side_.layers : 0);
  }

  void start(const Memory& memory, const std::vector<int64_t>& slots) override {
    if (!decoder_.crosses) return;
    Rows rows = machine_.rows(bytes_, memory.states.get(), memory.items(), memory.width);
    for (int64_t layer = 0; layer < side_.layers; ++layer) {
      std::vector<Held*> held;
      for (int64_t slot : slots) held.push_back(&slots_[slot].held[layer]);
      decoder_.layers[layer].cross.prepare(machine_, rows, memory.starts, held);
    }
  }

  Rows step(const std::vector<StepRow>& rows) override {
    int64_t count = static_cast<int64_t>(rows.size());
    follow(rows);
    float* states = stream_.begin(count, side_.width);
    int64_t furthest = 0;
    for (const StepRow& row : rows) {
      side_.embedding.look_up(row.token, states);
      side_.positions.add(states, row.position);
      states += side_.width;
      furthest = std::max<int64_t>(furthest, row.position + 1);
    }
    positions_.reach(side_.positions, furthest, side_.head_width);
    scores_.need(HEADS_TOGETHER * padded(furthest));
    stream_.ready(side_.embedding_norm);
    for (int64_t layer = 0; layer < side_.layers; ++layer) run(layer, rows);
    return stream_.finish(side_.norm);
  }

  void release(int64_t slot) override {
    free_.reserve(free_.size() + slots_[slot].blocks.size());  // first: nothing may fail halfway
    for (Buffer<uint32_t>& block : slots_[slot].blocks) free_.push_back(std::move(block));
    slots_[slot].blocks.clear();
  }

  const float* weights(int64_t row) const override {
    return decoder_.crosses && weighs ? cross_.weights.get() + cross_.weight_starts[row] : nullptr;
  }

 private:
  struct Slot {
    std::vector<Held> held;                // per layer
    std::vector<Buffer<uint32_t>> blocks;  // per position [layers][beam][keys, values]: floats, or pairs for bytes
  };

  // Ancestors and groups of the rows of this step, and room for what they write.
  void follow(const std::vector<StepRow>& rows) {
    std::vector<std::vector<uint16_t>> ancestors(rows.size());
    groups_.clear();
    for (size_t index = 0; index < rows.size(); ++index) {
      const StepRow& row = rows[index];
      if (row.from >= 0) ancestors[index] = ancestors_[row.from];
      ancestors[index].push_back(static_cast<uint16_t>(row.place));
      Slot& slot = slots_[row.slot];
      while (static_cast<int64_t>(slot.blocks.size()) <= row.position) {
        Buffer<uint32_t> block = free_.empty() ? Buffer<uint32_t>() : std::move(free_.back());
        if (!free_.empty()) free_.pop_back();
        block.need(block_);  // first: a block without memory must not stay where a later step would write to it
        slot.blocks.push_back(std::move(block));
      }
      if (groups_.empty() || groups_.back().slot != row.slot)
        groups_.push_back(Group{row.slot, static_cast<int64_t>(index), 0});
      ++groups_.back().count;
    }
    ancestors_.swap(ancestors);
  }

  void run(int64_t index, const std::vector<StepRow>& rows) {
    const Layer& layer = decoder_.layers[index];
    int64_t count = static_cast<int64_t>(rows.size());
    float* all = all_.need(count * side_.all_width());
    layer.attention.all.run(machine_, stream_.enter(layer.around_attention), all);
    float* contexts = contexts_.need(count * side_.query_width());
    for (int64_t row = 0; row < count; ++row) {  // all must be written before one is read
      side_.turn(machine_, positions_, all + row * side_.all_width(), rows[row].position);
      const float* made = all + row * side_.all_width() + side_.query_width();
      uint32_t* kept = place(rows[row], index, rows[row].position, rows[row].place);
      if (machine_.quantised)
        machine_.kernels.pair_heads(made, 2 * side_.key_heads, side_.head_width, kept, head_);
      else
        std::memcpy(kept, made, sizeof(float) * both_);
    }
    for (int64_t row = 0; row < count; ++row)
      attend(rows[row], ancestors_[row], index, all + row * side_.all_width(), contexts + row * side_.query_width());
    layer.attention.output.run(machine_, machine_.rows(bytes_, contexts, count, side_.query_width()), stream_.next(),
                               Activation::none, stream_.states());
    stream_.leave(layer.around_attention);
    if (decoder_.crosses) cross(layer, index, count);
    Rows inside = stream_.enter(layer.around_feedforward);
    layer.feedforward.run(machine_, feedforward_, inside, stream_.states(), stream_.next());
    stream_.leave(layer.around_feedforward);
  }

  uint32_t* place(const StepRow& row, int64_t layer, int64_t position, int64_t place) const {
    return slots_[row.slot].blocks[position].get() + (layer * beam_ + place) * both_;
  }

  void attend(const StepRow& row, const std::vector<uint16_t>& ancestors, int64_t layer, const float* query,
              float* out) {
    items_.resize(padded(static_cast<int64_t>(ancestors.size())));
    for (size_t position = 0; position < ancestors.size(); ++position)
      items_[position] = place(row, layer, static_cast<int64_t>(position), ancestors[position]);
    std::fill(items_.begin() + ancestors.size(), items_.end(), items_[ancestors.size() - 1]);
    AttendPast a;
    a.query = query;
    a.heads = side_.heads;
    a.key_heads = side_.key_heads;
    a.width = side_.head_width;
    a.items = items_.data();
    a.pairs = machine_.quantised;
    a.count = static_cast<int64_t>(ancestors.size());
    a.scale = side_.scale;
    if (side_.positions.biased()) {
      a.bias = positions_.biases.data();
      a.bias_stride = positions_.stride();
      a.bias_middle = positions_.furthest;
    }
    a.scores = scores_.get();
    a.out = out;
    machine_.kernels.attend_past(a);
  }

  void cross(const Layer& layer, int64_t index, int64_t count) {
    held_.assign(slots_.size(), nullptr);
    for (const Group& group : groups_) held_[group.slot] = &slots_[group.slot].held[index];
    Rows inside = stream_.enter(layer.around_cross);
    cross_.weighs = weighs && index == (reading.layer < 0 ? side_.layers - 1 : reading.layer);
    cross_.weighed = reading.head;
    int64_t width = layer.cross.heads * layer.cross.value_width;
    float* contexts = contexts_.need(count * width);
    layer.cross.contexts(machine_, cross_, inside, groups_, held_, contexts, width);
    layer.cross.output.run(machine_, machine_.rows(bytes_, contexts, count, width), stream_.next(), Activation::none,
                           stream_.states());
    stream_.leave(layer.around_cross);
  }

  const TransformerDecoder& decoder_;
  const Side& side_;
  const Machine& machine_;
  int64_t head_ = 0, both_ = 0, block_ = 0, beam_ = 0;  // words of a head, of a row's keys and values, of a block
  Stream stream_;
  std::vector<Slot> slots_;
  std::vector<Buffer<uint32_t>> free_;
  std::vector<std::vector<uint16_t>> ancestors_;
  std::vector<Group> groups_;
  std::vector<const Held*> held_;
  std::vector<const void*> items_;
  PositionRoom positions_;
  FeedForward::Room feedforward_;
  MemoryAttention::Room cross_;
  Buffer<float> all_, contexts_, scores_;
  Bytes bytes_;
};

std::unique_ptr<Decoding> TransformerDecoder::decoding(const Machine& machine, int64_t slots, int64_t beam) const {
  return std::make_unique<TransformerDecoding>(*this, machine, slots, beam);
}

}  // namespace

std::unique_ptr<Decoder> load_transformer_decoder(const File& file, bool quantised, const Encoder* encoder) {
  return std::make_unique<TransformerDecoder>(file, quantised, encoder);
}

}  // namespace regard
