#include <cstring>

#include "transformer.h"

namespace regard {
namespace {

struct Layer {
  SelfAttention attention;
  Norm around_attention, around_feedforward;
  FeedForward feedforward;
};

// Self-attention layers over packed sentences: products run over the items of all of them, attention within each.
class TransformerEncoder : public Encoder {
 public:
  TransformerEncoder(const File& file, bool quantised) : side_(Side::load(file, "encoder")) {
    vocabulary = side_.embedding.vocabulary;
    longest = side_.positions.longest();
    memory_width = summary_width = side_.width;
    for (int64_t index = 0; index < side_.layers; ++index) {
      std::string name = "encoder." + std::to_string(index);
      Layer layer;
      layer.attention = side_.self_attention(file, name + ".attention", quantised);
      layer.around_attention = Norm::load(file, name + ".around_attention", side_.width);
      layer.around_feedforward = Norm::load(file, name + ".around_feedforward", side_.width);
      layer.feedforward = FeedForward::load(file, name + ".feedforward", "encoder", side_.width, quantised);
      layers_.push_back(layer);
    }
  }

  void encode(const Machine& machine, const std::vector<Source>& sources, Memory* memory) const override {
    memory->width = memory->summary_width = side_.width;
    memory->starts.assign(1, 0);
    int64_t longest_source = 0;
    for (const Source& source : sources) {
      memory->starts.push_back(memory->starts.back() + source.length);
      longest_source = std::max(longest_source, source.length);
    }
    Work work(machine, side_.norm_first);
    work.positions.reach(side_.positions, longest_source, side_.head_width);
    int64_t items = memory->items();
    float* states = work.stream.begin(items, side_.width);
    for (const Source& source : sources)
      for (int64_t item = 0; item < source.length; ++item, states += side_.width) {
        side_.embedding.look_up(source.ids[item], states);
        side_.positions.add(states, item);
      }
    work.stream.ready(side_.embedding_norm);
    for (const Layer& layer : layers_) run(machine, work, layer, *memory);
    Rows rows = work.stream.finish(side_.norm);
    std::memcpy(memory->states.need(items * side_.width), rows.floats, sizeof(float) * items * side_.width);
    summarise(memory);
  }

 private:
  struct Work {
    Work(const Machine& machine, bool norm_first) : stream(machine, norm_first) {}
    Stream stream;
    PositionRoom positions;
    FeedForward::Room feedforward;
    Buffer<float> all, keys, scores, contexts;
    Bytes bytes;
  };

  void run(const Machine& machine, Work& work, const Layer& layer, const Memory& memory) const {
    int64_t items = memory.items();
    float* all = work.all.need(items * side_.all_width());
    layer.attention.all.run(machine, work.stream.enter(layer.around_attention), all);
    float* contexts = work.contexts.need(items * side_.query_width());
    for (int64_t sentence = 0; sentence < memory.sentences(); ++sentence)
      attend(machine, work, all, memory.starts[sentence], memory.starts[sentence + 1], contexts);
    layer.attention.output.run(machine, machine.rows(work.bytes, contexts, items, side_.query_width()),
                               work.stream.next(), Activation::none, work.stream.states());
    work.stream.leave(layer.around_attention);
    Rows rows = work.stream.enter(layer.around_feedforward);
    layer.feedforward.run(machine, work.feedforward, rows, work.stream.states(), work.stream.next());
    work.stream.leave(layer.around_feedforward);
  }

  void attend(const Machine& machine, Work& work, float* all, int64_t first, int64_t end, float* contexts) const {
    int64_t items = end - first, across = padded(items), stride = side_.all_width();
    for (int64_t item = 0; item < items; ++item)
      side_.turn(machine, work.positions, all + (first + item) * stride, item);
    float* keys = work.keys.need(side_.key_width() * across);
    const float* from = all + first * stride + side_.query_width();
    for (int64_t column = 0; column < side_.key_width(); ++column)
      for (int64_t item = 0; item < across; ++item)
        keys[column * across + item] = item < items ? from[item * stride + column] : 0.0f;
    Attend a;
    a.rows = a.items = items;
    a.queries = all + first * stride;
    a.query_stride = a.value_stride = stride;
    a.heads = side_.heads;
    a.key_heads = side_.key_heads;
    a.width = a.value_width = side_.head_width;
    a.keys = keys;
    a.values = from + side_.key_width();
    a.scale = side_.scale;
    if (side_.positions.biased()) {
      a.bias = work.positions.biases.data();
      a.bias_stride = work.positions.stride();
      a.bias_middle = work.positions.furthest;
    }
    a.scores = work.scores.need(HEADS_TOGETHER * 6 * across);
    a.out = contexts + first * side_.query_width();
    a.out_stride = side_.query_width();
    machine.kernels.attend(a);
  }

  void summarise(Memory* memory) const {
    float* summary = memory->summary.need(memory->sentences() * side_.width);
    for (int64_t sentence = 0; sentence < memory->sentences(); ++sentence) {
      int64_t first = memory->starts[sentence], end = memory->starts[sentence + 1];
      for (int64_t column = 0; column < side_.width; ++column) {
        float total = 0;
        for (int64_t item = first; item < end; ++item) total += memory->states.get()[item * side_.width + column];
        summary[sentence * side_.width + column] = total / static_cast<float>(end - first);
      }
    }
  }

  Side side_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<Encoder> load_transformer_encoder(const File& file, bool quantised) {
  return std::make_unique<TransformerEncoder>(file, quantised);
}

}  // namespace regard
