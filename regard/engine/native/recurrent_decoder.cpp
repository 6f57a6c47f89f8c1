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
  Linear state, token, context;
  int64_t width = 0;

  static Maxout load(const File& file, const std::string& name, int64_t state_width, int64_t token_width,
                     int64_t context_width, int64_t width, bool quantised) {
    Maxout maxout;
    maxout.width = width;
    maxout.state = Linear::load(file, name + ".0", state_width, 2 * width, quantised);
    maxout.token = Linear::load(file, name + ".1", token_width, 2 * width, quantised);
    maxout.context = Linear::load(file, name + ".2", context_width, 2 * width, quantised);
    return maxout;
  }

  // [2 * width] of each state and its context.
  const float* carried(const Machine& machine, Buffer<float>& room, const Rows& states, const Rows& contexts) const {
    Store store;
    store.out = room.need(states.count * 2 * width);
    store.stride = 2 * width;
    machine.kernels.product_sum(states, state.weights, contexts, context.weights, store);
    return store.out;
  }

  // With the product of the token.
  void larger(const float* carried, const float* token, float* out) const {
    for (int64_t column = 0; column < width; ++column)
      out[column] = std::max(carried[2 * column] + token[2 * column], carried[2 * column + 1] + token[2 * column + 1]);
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
      deep = Maxout::load(file, "decoder.deep", width, embedding.width, context_width, hidden_width, quantised);
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
    attention_heads.push_back(attention.heads);
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
        token_products_(machine, decoder.embedding, decoder.network.layers[0].inputs),
        deep_products_(machine, decoder.embedding, decoder.deep.token) {}

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
    if (decoder_.feeding) fed_rows_ = fed();  // before there is room for what is said now
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
    if (!attends() || !weighs) return nullptr;
    int64_t place = decoder_.wiring == Wiring::bahdanau ? past_of_[row] : row;  // which queries have attended
    return attention_.weights.get() + attention_.weight_starts[place];
  }

 private:
  struct Slot {
    Held held;
    Buffer<float> first, context;
  };

  bool attends() const { return decoder_.wiring == Wiring::attentive || decoder_.wiring == Wiring::bahdanau; }

  static void count_in(std::vector<Group>* groups, int64_t slot, int64_t place) {
    if (groups->empty() || groups->back().slot != slot) groups->push_back(Group{slot, place, 0});
    ++groups->back().count;
  }

  // The states that rows go on from, each once, and whose they are.
  void gather(const std::vector<StepRow>& rows) {
    int64_t count = static_cast<int64_t>(rows.size());
    row_groups_.clear();
    past_groups_.clear();
    past_from_.clear();
    past_of_.resize(count);
    held_.assign(slots_.size(), nullptr);
    float* states = states_.need(count * state_width_);
    for (int64_t index = 0; index < count; ++index) {
      const StepRow& row = rows[index];
      bool begins = row_groups_.empty() || row_groups_.back().slot != row.slot;
      count_in(&row_groups_, row.slot, index);
      held_[row.slot] = &slots_[row.slot].held;
      auto of_sentence = begins ? past_from_.end() : past_from_.begin() + past_groups_.back().first;
      auto found = std::find(of_sentence, past_from_.end(), row.from);
      int64_t place = found - past_from_.begin();
      past_of_[index] = static_cast<int32_t>(place);
      if (found != past_from_.end()) continue;
      past_from_.push_back(row.from);
      count_in(&past_groups_, row.slot, place);
      const float* from = row.from < 0 ? slots_[row.slot].first.get() : next_.get() + row.from * state_width_;
      std::memcpy(states + place * state_width_, from, sizeof(float) * state_width_);
    }
  }

  int64_t pasts() const { return static_cast<int64_t>(past_from_.size()); }

  // What was said last, where it is fed back; nothing in the beginning. The output has rounded it already.
  Rows fed() {
    int64_t count = pasts(), width = decoder_.hidden_width, across = (width + 63) / 64 * 64;
    Rows made;
    made.count = count;
    made.width = made.stride = width;
    if (!machine_.quantised) {
      float* out = fed_.need(count * width);
      std::fill_n(out, count * width, 0.0f);
      for (int64_t place = 0; place < count; ++place)
        if (past_from_[place] >= 0)
          std::memcpy(out + place * width, hidden_.get() + past_from_[place] * width, sizeof(float) * width);
      made.floats = out;
      return made;
    }
    uint8_t* bytes = bytes_[0].bytes.need(count * across);
    float* scales = bytes_[0].scales.need(count);
    for (int64_t place = 0; place < count; ++place) {
      int64_t from = past_from_[place];
      scales[place] = from < 0 ? 0.0f : bytes_[3].scales.get()[from];
      if (from < 0)
        std::fill_n(bytes + place * across, across, uint8_t{128});
      else
        std::memcpy(bytes + place * across, bytes_[3].bytes.get() + from * across, (width + 3) / 4 * 4);
    }
    made.bytes = bytes;
    made.byte_stride = across;
    made.scales = scales;
    return made;
  }

  void advance(int64_t count, const Given& given, float* said, int64_t stride) {
    Past past{states_.get(), pasts(), state_width_, past_of_.data()};
    decoder_.network.step(machine_, room_, given, past, count, next_.get(), said, stride);
  }

  // Contexts of queries, with the output projection where there is one.
  void contexts(const Rows& queries, const std::vector<Group>& groups, float* out, int64_t stride) {
    attention_.weighs = weighs;
    attention_.weighed = reading.head;
    const MemoryAttention& attention = decoder_.attention;
    if (!attention.has_output) return attention.contexts(machine_, attention_, queries, groups, held_, out, stride);
    int64_t width = attention.heads * attention.value_width;
    float* found = contexts_.need(queries.count * width);
    attention.contexts(machine_, attention_, queries, groups, held_, found, width);
    Store store;
    store.out = out;
    store.stride = stride;
    machine_.kernels.product(machine_.rows(bytes_[2], found, queries.count, width), attention.output.weights, store);
  }

  void initial(const std::vector<StepRow>& rows, float* hidden) {
    int64_t count = static_cast<int64_t>(rows.size());
    advance(count, Given{nullptr, token_products_.of(rows)}, hidden, decoder_.hidden_width);
  }

  void attentive(const std::vector<StepRow>& rows, float* hidden) {
    int64_t count = static_cast<int64_t>(rows.size());
    Given given{nullptr, token_products_.of(rows)};
    if (decoder_.feeding) {
      given.carried = &fed_rows_;
      given.linear = &decoder_.from_fed;
    }
    int64_t width = decoder_.network.width, across = width + decoder_.context_width;
    float* both = decoder_.projects ? joined_.need(count * across) : hidden;
    float* said = both + (decoder_.side_by_side ? 0 : decoder_.context_width);
    advance(count, given, said, across);
    contexts(machine_.rows(bytes_[1], said, count, width, across), row_groups_,
             both + (decoder_.side_by_side ? width : 0), across);
    if (decoder_.projects)
      decoder_.combine.run(machine_, machine_.rows(bytes_[2], both, count, across), hidden,
                           decoder_.side_by_side ? Activation::none : Activation::tanh);
  }

  // Of each row, from what its past gives (null: what it gives itself) and its token.
  void deep(const std::vector<StepRow>& rows, const float* carried, const int32_t* past_of, float* hidden) {
    const float* const* tokens = deep_products_.of(rows);
    int64_t width = decoder_.hidden_width;
    for (int64_t row = 0; row < static_cast<int64_t>(rows.size()); ++row) {
      int64_t place = past_of ? past_of[row] : row;
      decoder_.deep.larger(carried + place * 2 * width, tokens[row], hidden + row * width);
    }
  }

  void bahdanau(const std::vector<StepRow>& rows, float* hidden) {
    int64_t count = static_cast<int64_t>(rows.size()), width = decoder_.network.width;
    int64_t last = (decoder_.network.layer_count - 1) * decoder_.network.parts() * width;
    Rows before = machine_.rows(before_bytes_, states_.get() + last, pasts(), width, state_width_);
    float* found = joined_.need(pasts() * decoder_.context_width);
    contexts(before, past_groups_, found, decoder_.context_width);
    Rows context = machine_.rows(context_bytes_, found, pasts(), decoder_.context_width);
    Given given{nullptr, token_products_.of(rows), &context, &decoder_.from_context};
    advance(count, given, said_.need(count * width), width);
    deep(rows, decoder_.deep.carried(machine_, deep_, before, context), past_of_.data(), hidden);
  }

  void every_step(const std::vector<StepRow>& rows, float* hidden) {
    int64_t count = static_cast<int64_t>(rows.size()), width = decoder_.embedding.width;
    int64_t context_width = decoder_.context_width;
    float* both = joined_.need(count * (width + context_width));
    float* every = contexts_.need(count * context_width);
    for (int64_t row = 0; row < count; ++row) {
      const float* context = slots_[rows[row].slot].context.get();
      float* to = both + row * (width + context_width);
      decoder_.embedding.look_up(rows[row].token, to);
      std::memcpy(to + width, context, sizeof(float) * context_width);
      std::memcpy(every + row * context_width, context, sizeof(float) * context_width);
    }
    const Linear& linear = decoder_.network.layers[0].inputs;
    float* made = more_.need(count * linear.outputs());
    linear.run(machine_, machine_.rows(bytes_[1], both, count, width + context_width), made);
    float* said = said_.need(count * decoder_.network.width);
    advance(count, Given{made}, said, decoder_.network.width);
    Rows states = machine_.rows(before_bytes_, said, count, decoder_.network.width);
    Rows contexts = machine_.rows(context_bytes_, every, count, context_width);
    deep(rows, decoder_.deep.carried(machine_, deep_, states, contexts), nullptr, hidden);
  }

  const RecurrentDecoder& decoder_;
  const Machine& machine_;
  int64_t state_width_;
  std::vector<Slot> slots_;
  std::vector<Group> row_groups_, past_groups_;
  std::vector<int32_t> past_of_;    // which past is a row's
  std::vector<int32_t> past_from_;  // its place in the rows of the step before; -1: the beginning
  std::vector<const Held*> held_;
  Network::Room room_;
  MemoryAttention::Room attention_;
  TokenProducts token_products_, deep_products_;
  Rows fed_rows_;
  Buffer<float> states_, next_, fed_, hidden_, said_, more_, contexts_, joined_, deep_;
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
