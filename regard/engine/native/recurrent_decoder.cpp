#include <algorithm>
#include <cstring>

#include "recurrent.h"
#include "token_products.h"

namespace regard {
namespace {

enum class Wiring : int64_t { initial = 0, attentive = 1, bahdanau = 2, every_step = 3 };
enum class Bridge : int64_t { finals = 0, transformed = 1, nothing = 2 };

// Of each pair of sums of products, the larger.
struct Maxout {
  Linear parts[3];
  int64_t width = 0;

  static Maxout load(const File& file, const std::string& name, const int64_t (&inputs)[3], int64_t width,
                     bool quantised) {
    Maxout maxout;
    maxout.width = width;
    for (int part = 0; part < 3; ++part)
      maxout.parts[part] =
          Linear::load(file, name + "." + std::to_string(part), inputs[part], 2 * width, quantised);
    return maxout;
  }

  void run(const Machine& machine, Buffer<float> (&room)[2], const Rows (&inputs)[3], float* out) const {
    int64_t count = inputs[0].count;
    float* first = room[0].need(count * 2 * width);
    float* second = room[1].need(count * 2 * width);
    parts[0].run(machine, inputs[0], first);
    parts[1].run(machine, inputs[1], second, Activation::none, first);
    parts[2].run(machine, inputs[2], first, Activation::none, second);
    for (int64_t place = 0; place < count * width; ++place)
      out[place] = std::max(first[2 * place], first[2 * place + 1]);
  }
};

class RecurrentDecoder : public Decoder {
 public:
  RecurrentDecoder(const File& file, bool quantised, const Encoder* encoder)
      : embedding(Embedding::load(file, "decoder")) {
    vocabulary = embedding.vocabulary;
    wiring = static_cast<Wiring>(file.integer("decoder.wiring", 0, 3));
    bridge = static_cast<Bridge>(file.integer("decoder.bridge", 0, 2));
    hidden_width = file.integer("decoder.hidden", 1, MOST_WIDTH);
    int64_t width = file.integer("decoder.width", 1, MOST_WIDTH), input_width = embedding.width;
    if (!encoder && (wiring != Wiring::initial || bridge != Bridge::nothing))
      throw Refused("the decoder reads a source that the model does not have");
    if (wiring == Wiring::every_step) {
      context_width = file.integer("decoder.context", 1, MOST_WIDTH);
      context = Linear::load(file, "decoder.context", encoder->summary_width, context_width, quantised);
      input_width += context_width;
    }
    network = Network::load(file, "decoder", "decoder.forth", input_width, width, quantised);
    output = Linear::load(file, "decoder.output", hidden_width, vocabulary, quantised);
    load_bridge(file, quantised, encoder);
    if (wiring == Wiring::attentive || wiring == Wiring::bahdanau) load_attention(file, quantised, encoder);
    if (wiring == Wiring::bahdanau || wiring == Wiring::every_step)
      deep = Maxout::load(file, "decoder.deep", {width, embedding.width, context_width}, hidden_width, quantised);
    if (wiring == Wiring::initial && hidden_width != width) throw Refused("the output reads states of another width");
  }

  std::unique_ptr<Decoding> decoding(const Machine& machine, int64_t slots, int64_t beam) const override;

  Embedding embedding;
  Wiring wiring = Wiring::initial;
  Bridge bridge = Bridge::nothing;
  int64_t hidden_width = 0, context_width = 0;
  bool feeding = false, side_by_side = false, projects = false;
  Network network;
  MemoryAttention attention;
  Linear context, first_state, from_context, from_fed, combine;
  Maxout deep;

 private:
  void load_bridge(const File& file, bool quantised, const Encoder* encoder) {
    if (bridge == Bridge::finals && encoder->finals_width != network.state_width())
      throw Refused("the decoder begins with other states than the encoder ends with");
    if (bridge != Bridge::transformed) return;
    int64_t inputs = wiring == Wiring::every_step ? context_width : encoder->summary_width;
    first_state = Linear::load(file, "decoder.bridge", inputs, network.state_width(), quantised);
  }

  void load_attention(const File& file, bool quantised, const Encoder* encoder) {
    attention = MemoryAttention::load(file, "decoder.cross", network.width, encoder->memory_width, quantised);
    context_width = attention.context_width();
    int64_t across = network.blocks() * network.width;
    if (wiring == Wiring::bahdanau) {
      from_context = Linear::load(file, "decoder.from_context", context_width, across, quantised);
      return;
    }
    feeding = file.flag("decoder.feeding");
    side_by_side = file.flag("decoder.side_by_side");
    projects = file.flag("decoder.projects");
    int64_t both = context_width + network.width;
    if (projects) combine = Linear::load(file, "decoder.combine", both, hidden_width, quantised);
    if (!projects && (!side_by_side || hidden_width != both)) throw Refused("the output reads states of another width");
    if (feeding) from_fed = Linear::load(file, "decoder.from_fed", hidden_width, across, quantised);
  }
};

class RecurrentDecoding : public Decoding {
 public:
  RecurrentDecoding(const RecurrentDecoder& decoder, const Machine& machine, int64_t slots)
      : decoder_(decoder),
        machine_(machine),
        state_width_(decoder.network.state_width()),
        slots_(slots),
        token_products_(machine, decoder.embedding, decoder.network.layers[0].inputs) {}

  void start(const Memory& memory, const std::vector<int64_t>& slots) override {
    if (attends()) {
      std::vector<Held*> held;
      for (int64_t slot : slots) held.push_back(&slots_[slot].held);
      Rows rows = machine_.rows(bytes_[0], memory.states.get(), memory.items(), memory.width);
      decoder_.attention.prepare(machine_, rows, memory.starts, held);
    }
    int64_t count = static_cast<int64_t>(slots.size());
    Buffer<float> made, contexts;
    const float* from = memory.finals.get();
    Rows summary;
    if (decoder_.bridge == Bridge::transformed || decoder_.wiring == Wiring::every_step)
      summary = machine_.rows(bytes_[0], memory.summary.get(), count, memory.summary_width);
    if (decoder_.wiring == Wiring::every_step) {
      int64_t width = decoder_.context_width;
      float* context = contexts.need(count * width);
      decoder_.context.run(machine_, summary, context, Activation::tanh);
      for (int64_t index = 0; index < count; ++index)
        std::memcpy(slots_[slots[index]].context.need(width), context + index * width, sizeof(float) * width);
      summary = machine_.rows(bytes_[1], context, count, width);
    }
    if (decoder_.bridge == Bridge::transformed) {
      decoder_.first_state.run(machine_, summary, made.need(count * state_width_), Activation::tanh);
      from = made.get();
    }
    for (int64_t index = 0; index < count; ++index) {
      float* to = slots_[slots[index]].first.need(state_width_);
      if (decoder_.bridge == Bridge::nothing)
        std::fill_n(to, state_width_, 0.0f);
      else
        std::memcpy(to, from + index * state_width_, sizeof(float) * state_width_);
    }
  }

  Rows step(const std::vector<StepRow>& rows) override {
    int64_t count = static_cast<int64_t>(rows.size());
    gather(rows);
    if (decoder_.feeding) fed_rows_ = fed(rows);  // before there is room for what is said now
    next_.need(count * state_width_);
    float* hidden = hidden_.need(count * decoder_.hidden_width);
    switch (decoder_.wiring) {
      case Wiring::initial: initial(rows, hidden); break;
      case Wiring::attentive: attentive(rows, hidden); break;
      case Wiring::bahdanau: bahdanau(rows, hidden); break;
      case Wiring::every_step: every_step(rows, hidden); break;
    }
    return machine_.rows(bytes_[3], hidden, count, decoder_.hidden_width);
  }

  void release(int64_t) override {}

  const float* weights(int64_t row) const override {
    return attends() && weighs ? attention_.weights.get() + attention_.weight_starts[row] : nullptr;
  }

 private:
  struct Slot {
    Held held;
    Buffer<float> first, context;
  };

  bool attends() const { return decoder_.wiring == Wiring::attentive || decoder_.wiring == Wiring::bahdanau; }

  // The states of the rows that are continued.
  void gather(const std::vector<StepRow>& rows) {
    int64_t count = static_cast<int64_t>(rows.size());
    float* states = states_.need(count * state_width_);
    groups_.clear();
    held_.assign(slots_.size(), nullptr);
    for (int64_t index = 0; index < count; ++index) {
      const StepRow& row = rows[index];
      const float* from = row.from < 0 ? slots_[row.slot].first.get() : next_.get() + row.from * state_width_;
      std::memcpy(states + index * state_width_, from, sizeof(float) * state_width_);
      if (groups_.empty() || groups_.back().slot != row.slot) groups_.push_back(Group{row.slot, index, 0});
      ++groups_.back().count;
      held_[row.slot] = &slots_[row.slot].held;
    }
  }

  // What was said last, where it is fed back; nothing in the beginning. The output has rounded it already.
  Rows fed(const std::vector<StepRow>& rows) {
    int64_t count = static_cast<int64_t>(rows.size()), width = decoder_.hidden_width, across = (width + 63) / 64 * 64;
    Rows made;
    made.count = count;
    made.width = made.stride = width;
    if (!machine_.quantised) {
      float* out = fed_.need(count * width);
      std::fill_n(out, count * width, 0.0f);
      for (int64_t row = 0; row < count; ++row)
        if (rows[row].from >= 0)
          std::memcpy(out + row * width, hidden_.get() + rows[row].from * width, sizeof(float) * width);
      made.floats = out;
      return made;
    }
    uint8_t* bytes = bytes_[0].bytes.need(count * across);
    float* scales = bytes_[0].scales.need(count);
    for (int64_t row = 0; row < count; ++row) {
      bool first = rows[row].from < 0;
      scales[row] = first ? 0.0f : bytes_[3].scales.get()[rows[row].from];
      if (first)
        std::fill_n(bytes + row * across, across, uint8_t{128});
      else
        std::memcpy(bytes + row * across, bytes_[3].bytes.get() + rows[row].from * across, (width + 3) / 4 * 4);
    }
    made.bytes = bytes;
    made.byte_stride = across;
    made.scales = scales;
    return made;
  }

  void advance(int64_t count, const Given& given, float* said, int64_t stride) {
    decoder_.network.step(machine_, room_, given, count, states_.get(), next_.get(), said, stride);
  }

  // Contexts of queries, with the output projection where there is one.
  void contexts(const Rows& queries, float* out, int64_t stride) {
    attention_.weighs = weighs;
    const MemoryAttention& attention = decoder_.attention;
    if (!attention.has_output) return attention.contexts(machine_, attention_, queries, groups_, held_, out, stride);
    int64_t width = attention.heads * attention.value_width;
    float* found = contexts_.need(queries.count * width);
    attention.contexts(machine_, attention_, queries, groups_, held_, found, width);
    Store store;
    store.out = out;
    store.stride = stride;
    machine_.kernels.product(machine_.rows(bytes_[2], found, queries.count, width), attention.output.weights, store);
  }

  void initial(const std::vector<StepRow>& rows, float* hidden) {
    int64_t count = static_cast<int64_t>(rows.size());
    advance(count, Given{nullptr, token_products_.of(rows)}, hidden, decoder_.hidden_width);
  }

  Rows embedded(const std::vector<StepRow>& rows) {
    int64_t count = static_cast<int64_t>(rows.size()), width = decoder_.embedding.width;
    float* out = embedded_.need(count * width);
    for (int64_t row = 0; row < count; ++row) decoder_.embedding.look_up(rows[row].token, out + row * width);
    return machine_.rows(bytes_[0], out, count, width);
  }

  void attentive(const std::vector<StepRow>& rows, float* hidden) {
    int64_t count = static_cast<int64_t>(rows.size());
    Given given{nullptr, token_products_.of(rows)};
    if (decoder_.feeding) {
      given.rows = &fed_rows_;
      given.linear = &decoder_.from_fed;
    }
    int64_t width = decoder_.network.width, across = width + decoder_.context_width;
    float* both = decoder_.projects ? joined_.need(count * across) : hidden;
    float* said = both + (decoder_.side_by_side ? 0 : decoder_.context_width);
    advance(count, given, said, across);
    contexts(machine_.rows(bytes_[1], said, count, width, across), both + (decoder_.side_by_side ? width : 0), across);
    if (decoder_.projects)
      decoder_.combine.run(machine_, machine_.rows(bytes_[2], both, count, across), hidden,
                           decoder_.side_by_side ? Activation::none : Activation::tanh);
  }

  void bahdanau(const std::vector<StepRow>& rows, float* hidden) {
    int64_t count = static_cast<int64_t>(rows.size()), width = decoder_.network.width;
    int64_t last = (decoder_.network.layer_count - 1) * decoder_.network.parts() * width;
    Rows before = machine_.rows(before_bytes_, states_.get() + last, count, width, state_width_);
    float* found = joined_.need(count * decoder_.context_width);
    contexts(before, found, decoder_.context_width);
    Rows context = machine_.rows(context_bytes_, found, count, decoder_.context_width);
    Given given{nullptr, token_products_.of(rows), &context, &decoder_.from_context};
    advance(count, given, said_.need(count * width), width);
    decoder_.deep.run(machine_, deep_, {before, embedded(rows), context}, hidden);
  }

  void every_step(const std::vector<StepRow>& rows, float* hidden) {
    int64_t count = static_cast<int64_t>(rows.size()), width = decoder_.embedding.width;
    int64_t context_width = decoder_.context_width;
    Rows alone = embedded(rows);
    float* both = joined_.need(count * (width + context_width));
    float* every = contexts_.need(count * context_width);
    for (int64_t row = 0; row < count; ++row) {
      const float* context = slots_[rows[row].slot].context.get();
      float* to = both + row * (width + context_width);
      std::memcpy(to, embedded_.get() + row * width, sizeof(float) * width);
      std::memcpy(to + width, context, sizeof(float) * context_width);
      std::memcpy(every + row * context_width, context, sizeof(float) * context_width);
    }
    const Linear& linear = decoder_.network.layers[0].inputs;
    float* made = more_.need(count * linear.outputs());
    linear.run(machine_, machine_.rows(bytes_[1], both, count, width + context_width), made);
    float* said = said_.need(count * decoder_.network.width);
    advance(count, Given{made}, said, decoder_.network.width);
    decoder_.deep.run(machine_, deep_,
                      {machine_.rows(before_bytes_, said, count, decoder_.network.width), alone,
                       machine_.rows(context_bytes_, every, count, context_width)},
                      hidden);
  }

  const RecurrentDecoder& decoder_;
  const Machine& machine_;
  int64_t state_width_;
  std::vector<Slot> slots_;
  std::vector<Group> groups_;
  std::vector<const Held*> held_;
  Network::Room room_;
  MemoryAttention::Room attention_;
  TokenProducts token_products_;
  Rows fed_rows_;
  Buffer<float> states_, next_, fed_, hidden_, said_, embedded_, more_, contexts_, joined_, deep_[2];
  Bytes bytes_[4], before_bytes_, context_bytes_;
};

std::unique_ptr<Decoding> RecurrentDecoder::decoding(const Machine& machine, int64_t slots, int64_t) const {
  return std::make_unique<RecurrentDecoding>(*this, machine, slots);
}

}  // namespace

std::unique_ptr<Decoder> load_recurrent_decoder(const File& file, bool quantised, const Encoder* encoder) {
  return std::make_unique<RecurrentDecoder>(file, quantised, encoder);
}

}  // namespace regard
