#include <algorithm>
#include <cstring>
#include <numeric>

#include "recurrent.h"

namespace regard {
namespace {

// A recurrent network over packed sentences: products with the inputs run over all items at once, the recurrence over all
// sentences that still have an item.
class RecurrentEncoder : public Encoder {
 public:
  RecurrentEncoder(const File& file, bool quantised) : embedding_(Embedding::load(file, "encoder")) {
    vocabulary = embedding_.vocabulary;
    backwards = file.flag("encoder.backwards");
    backward_summary_ = file.flag("encoder.backward_summary");
    int64_t width = file.integer("encoder.width", 1, MOST_WIDTH);
    int64_t count = file.integer("encoder.directions", 1, 2);
    if (count == 1 && backward_summary_) throw Refused("a one-way encoder has no backward state to sum up with");
    memory_width = count * width;
    for (int64_t direction = 0; direction < count; ++direction)
      directions_.push_back(Network::load(file, "encoder", "encoder." + std::string(direction ? "back" : "forth"),
                                          embedding_.width, memory_width, quantised));
    summary_width = backward_summary_ ? width : memory_width;
    finals_width = directions_[0].layer_count * directions_[0].parts() * memory_width;
  }

  void encode(const Machine& machine, const std::vector<Source>& sources, Memory* memory) const override {
    int64_t count = static_cast<int64_t>(sources.size());
    const Network& first = directions_[0];
    memory->width = memory_width;
    memory->summary_width = summary_width;
    memory->finals_width = finals_width;
    memory->starts.assign(1, 0);
    for (const Source& source : sources) memory->starts.push_back(memory->starts.back() + source.length);
    int64_t items = memory->items();
    Work work;
    work.order.resize(count);
    std::iota(work.order.begin(), work.order.end(), 0);
    std::stable_sort(work.order.begin(), work.order.end(),
                     [&](int64_t one, int64_t other) { return sources[one].length > sources[other].length; });
    float* read = work.read.need(items * embedding_.width);
    for (int64_t sentence = 0; sentence < count; ++sentence)
      for (int64_t item = 0; item < sources[sentence].length; ++item) {
        int64_t from = backwards ? sources[sentence].length - 1 - item : item;
        embedding_.look_up(sources[sentence].ids[from], read + (memory->starts[sentence] + item) * embedding_.width);
      }
    memory->finals.need(count * finals_width);
    int64_t read_width = embedding_.width;
    for (int64_t index = 0; index < first.layer_count; ++index) {
      float* said = work.said.need(items * memory_width);
      Rows rows = machine.rows(work.bytes, work.read.get(), items, read_width);
      for (size_t direction = 0; direction < directions_.size(); ++direction)
        sweep(machine, work, rows, index, static_cast<int64_t>(direction), memory, said);
      if (first.residual && index)
        for (int64_t place = 0; place < items * memory_width; ++place) said[place] += work.read.get()[place];
      std::swap(work.read, work.said);
      read_width = memory_width;
    }
    std::memcpy(memory->states.need(items * memory_width), work.read.get(), sizeof(float) * items * memory_width);
    summarise(memory);
  }

 private:
  struct Work {
    std::vector<int64_t> order;  // the longest sentence first
    std::vector<const float*> these;  // what is given to each sentence in one step
    Buffer<float> read, said, products, states, next;
    Bytes bytes;
    CellRoom cell;
  };

  // One layer in one direction. Sentences stand in the order of their lengths, so those that go on come first.
  void sweep(const Machine& machine, Work& work, const Rows& rows, int64_t index, int64_t direction, Memory* memory,
             float* said) const {
    const RecurrentLayer& layer = directions_[direction].layers[index];
    int64_t width = layer.cell.width, state = layer.cell.parts() * width, across = layer.cell.blocks() * width;
    int64_t count = memory->sentences(), going = count;
    float* products = work.products.need(rows.count * across);
    layer.inputs.run(machine, rows, products);
    work.these.resize(count);
    std::fill_n(work.states.need(count * state), count * state, 0.0f);
    work.next.need(count * state);
    for (int64_t step = 0; going; ++step) {
      auto length = [&](int64_t place) { return memory->starts[work.order[place] + 1] - memory->starts[work.order[place]]; };
      auto item = [&](int64_t place) {
        int64_t within = direction ? length(place) - 1 - step : step;
        return memory->starts[work.order[place]] + within;
      };
      while (going && length(going - 1) <= step) keep_final(layer, index, direction, work, --going, memory);
      if (!going) break;
      for (int64_t place = 0; place < going; ++place) work.these[place] = products + item(place) * across;
      layer.cell.step(machine, work.cell, Given{nullptr, work.these.data()}, Past{work.states.get(), going, state},
                      going, work.next.get(), state);
      for (int64_t place = 0; place < going; ++place)
        std::memcpy(said + item(place) * memory_width + direction * width, work.next.get() + place * state,
                    sizeof(float) * width);
      // sentences that have ended are not in `next`; their final states are kept already
      std::swap(work.states, work.next);
    }
  }

  // The final state of one sentence: [layers][parts][directions * width].
  void keep_final(const RecurrentLayer& layer, int64_t index, int64_t direction, const Work& work, int64_t place,
                  Memory* memory) const {
    int64_t width = layer.cell.width, parts = layer.cell.parts();
    for (int64_t part = 0; part < parts; ++part)
      std::memcpy(memory->finals.get() + work.order[place] * finals_width + (index * parts + part) * memory_width +
                      direction * width,
                  work.states.get() + (place * parts + part) * width, sizeof(float) * width);
  }

  void summarise(Memory* memory) const {
    const Network& first = directions_[0];
    int64_t last = (first.layer_count - 1) * first.parts() * memory_width;
    int64_t skipped = backward_summary_ ? first.width : 0;
    float* summary = memory->summary.need(memory->sentences() * summary_width);
    for (int64_t sentence = 0; sentence < memory->sentences(); ++sentence)
      std::memcpy(summary + sentence * summary_width, memory->finals.get() + sentence * finals_width + last + skipped,
                  sizeof(float) * summary_width);
  }

  Embedding embedding_;
  bool backward_summary_ = false;
  std::vector<Network> directions_;
};

}  // namespace

std::unique_ptr<Encoder> load_recurrent_encoder(const File& file, bool quantised) {
  return std::make_unique<RecurrentEncoder>(file, quantised);
}

}  // namespace regard
