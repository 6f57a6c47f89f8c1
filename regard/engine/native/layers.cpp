#include "layers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace regard {

Rows Machine::rows(Bytes& room, const float* values, int64_t count, int64_t width, int64_t stride) const {
  Rows rows;
  rows.count = count;
  rows.width = width;
  rows.floats = values;
  rows.stride = stride;
  if (quantised) {
    rows.byte_stride = (width + 63) / 64 * 64;
    uint8_t* bytes = room.bytes.need(count * rows.byte_stride);
    float* scales = room.scales.need(count);
    kernels.quantise(values, count, width, stride, bytes, rows.byte_stride, scales);
    rows.bytes = bytes;
    rows.scales = scales;
  }
  return rows;
}

Linear Linear::load(const File& file, const std::string& name, int64_t inputs, int64_t outputs, bool quantised) {
  if (inputs < 1 || inputs > MOST_WIDTH || outputs < 1 || outputs > MOST_TOKENS)
    throw Refused(name + " has an impossible size");
  Linear linear;
  int64_t panels = (outputs + PANEL - 1) / PANEL;
  linear.weights.inputs = inputs;
  linear.weights.outputs = outputs;
  linear.weights.bias = file.floats(name + ".bias", {panels * PANEL});
  if (!quantised) {
    linear.weights.floats = file.floats(name + ".floats", {panels, inputs, PANEL});
    return linear;
  }
  linear.weights.bytes = file.bytes(name + ".bytes", {panels, (inputs + 3) / 4, PANEL, 4});
  linear.weights.scales = file.floats(name + ".scales", {panels * PANEL});
  linear.weights.shift = file.integers(name + ".shift", {panels * PANEL});
  for (int64_t column = 0; column < panels * PANEL; ++column)
    if (std::abs(static_cast<int64_t>(linear.weights.shift[column])) > 128 * 128 * (inputs + 3))
      throw Refused(name + " has an impossible shift");
  return linear;
}

void Linear::run(const Machine& machine, const Rows& rows, float* out, Activation activation,
                 const float* residual) const {
  Store store;
  store.out = out;
  store.stride = weights.outputs;
  store.residual = residual;
  store.residual_stride = weights.outputs;
  store.activation = activation;
  machine.kernels.product(rows, weights, store);
}

Norm Norm::load(const File& file, const std::string& name, int64_t width) {
  Norm norm;
  norm.width = width;
  norm.weights.gain = file.floats(name + ".gain", {width});
  if (file.has(name + ".bias")) norm.weights.bias = file.floats(name + ".bias", {width});
  norm.weights.epsilon = static_cast<float>(file.number(name + ".epsilon"));
  return norm;
}

Rows Norm::run(const Machine& machine, Bytes& room, const float* in, int64_t count, float* out) const {
  Rows rows;
  rows.count = count;
  rows.width = rows.stride = width;
  rows.floats = out;
  rows.byte_stride = (width + 63) / 64 * 64;
  uint8_t* bytes = machine.quantised ? room.bytes.need(count * rows.byte_stride) : nullptr;
  float* scales = machine.quantised ? room.scales.need(count) : nullptr;
  machine.kernels.norm(weights, in, count, width, out, bytes, rows.byte_stride, scales);
  rows.bytes = bytes;
  rows.scales = scales;
  return rows;
}

Activation activation_of(const File& file, const std::string& name) {
  return static_cast<Activation>(file.integer(name, 0, 5));
}

Positions Positions::load(const File& file, const std::string& side, int64_t width, int64_t heads,
                          int64_t head_width) {
  Positions positions;
  positions.kind_ = static_cast<Kind>(file.integer(side + ".positions", 0, 5));
  positions.width_ = width;
  positions.heads_ = heads;
  positions.head_width_ = head_width;
  std::string table = side + ".positions";
  switch (positions.kind_) {
    case Kind::added:
    case Kind::waves:
      positions.prepared_ = file.length(table);
      positions.table_ = file.floats(table, {positions.prepared_, width});
      if (positions.kind_ == Kind::added) positions.longest_ = positions.prepared_;
      if (positions.kind_ == Kind::added && !positions.longest_) throw Refused(table + " holds no positions");
      if (positions.kind_ == Kind::waves) positions.halves_ = file.flag(side + ".halves");
      break;
    case Kind::bias:
      positions.furthest_ = file.integer(side + ".furthest", 0, 1 << 20);
      positions.table_ = file.floats(table, {heads, 2 * positions.furthest_ + 1});
      break;
    case Kind::alibi:
      positions.table_ = file.floats(table, {heads});
      break;
    case Kind::rotary:
      if (head_width % 2) throw Refused("rotary positions turn pairs of numbers");
      break;
    case Kind::none:
      break;
  }
  return positions;
}

void Positions::add(float* row, int64_t position) const {
  if (kind_ != Kind::added && kind_ != Kind::waves) return;
  if (position < prepared_) {
    const float* from = table_ + position * width_;
    for (int64_t column = 0; column < width_; ++column) row[column] += from[column];
    return;
  }
  for (int64_t column = 0; column < width_; ++column) {  // beyond the table; only waves have no end
    int64_t half = (width_ + 1) / 2, wave = halves_ ? column % half : column / 2;
    double angle = static_cast<double>(position) * std::exp(2.0 * wave * (-std::log(10000.0) / width_));
    bool cosine = halves_ ? column >= half : column % 2;
    row[column] += static_cast<float>(cosine ? std::cos(angle) : std::sin(angle));
  }
}

void Positions::turns_at(int64_t position, float* out) const {
  for (int64_t pair = 0; pair < head_width_ / 2; ++pair) {
    double angle = static_cast<double>(position) * std::exp(2.0 * pair * (-std::log(10000.0) / head_width_));
    out[pair] = static_cast<float>(std::cos(angle));
    out[head_width_ / 2 + pair] = static_cast<float>(std::sin(angle));
  }
}

void Positions::biases(int64_t furthest, std::vector<float>* out) const {
  int64_t stride = 2 * furthest + 1 + 16;
  out->assign(heads_ * stride, 0.0f);
  for (int64_t head = 0; head < heads_; ++head)
    for (int64_t distance = -furthest; distance <= furthest; ++distance) {
      float value;
      if (kind_ == Kind::alibi) {
        value = static_cast<float>(-static_cast<double>(table_[head]) * std::abs(static_cast<double>(distance)));
      } else {
        int64_t near = distance < -furthest_ ? -furthest_ : distance > furthest_ ? furthest_ : distance;
        value = table_[head * (2 * furthest_ + 1) + furthest_ + near];
      }
      (*out)[head * stride + furthest + distance] = value;
    }
}

void PositionRoom::reach(const Positions& positions, int64_t items, int64_t head_width) {
  if (positions.biased() && furthest < items) {
    int64_t far = items < 64 ? 64 : 2 * items;
    positions.biases(far, &biases);
    furthest = far;  // not before they are there: what follows a step that failed reads them
  }
  if (positions.turns()) {
    int64_t present = static_cast<int64_t>(turns.size()) / head_width;
    if (present < items) turns.resize(items * head_width);
    for (; present < items; ++present) positions.turns_at(present, turns.data() + present * head_width);
  }
}

MemoryAttention MemoryAttention::load(const File& file, const std::string& name, int64_t query_width,
                                      int64_t memory_width, bool quantised) {
  MemoryAttention a;
  a.memory_width = memory_width;
  a.heads = file.integer(name + ".heads", 1, 4096);
  a.key_heads = file.integer(name + ".key_heads", 1, a.heads);
  a.width = file.integer(name + ".width", 1, MOST_WIDTH);
  a.value_width = file.integer(name + ".value_width", 1, MOST_WIDTH);
  a.scale = static_cast<float>(file.number(name + ".scale"));
  if (a.heads % a.key_heads) throw Refused(name + " has key heads that cannot serve its heads");
  a.has_query = file.flag(name + ".has_query");
  a.has_key = file.flag(name + ".has_key");
  a.has_value = file.flag(name + ".has_value");
  a.has_output = file.flag(name + ".has_output");
  if (a.has_query) a.query = Linear::load(file, name + ".query", query_width, a.heads * a.width, quantised);
  if (a.has_key) a.key = Linear::load(file, name + ".key", memory_width, a.key_heads * a.width, quantised);
  if (a.has_value) a.value = Linear::load(file, name + ".value", memory_width, a.key_heads * a.value_width, quantised);
  bool fits = (a.has_query || query_width == a.heads * a.width) &&
              (a.has_key || memory_width == a.key_heads * a.width) &&
              (a.has_value || memory_width == a.key_heads * a.value_width);
  if (!fits) throw Refused(name + " compares what has other widths");
  if (a.has_output) {
    int64_t outputs = file.integer(name + ".outputs", 1, MOST_WIDTH);
    a.output = Linear::load(file, name + ".output", a.heads * a.value_width, outputs, quantised);
  }
  if (file.flag(name + ".additive")) {
    if (a.heads != a.key_heads) throw Refused(name + " is additive and shares keys");
    a.energy = file.floats(name + ".energy", {a.heads, a.width});
  }
  return a;
}

void MemoryAttention::prepare(const Machine& machine, const Rows& memory, const std::vector<int64_t>& starts,
                              const std::vector<Held*>& held) const {
  int64_t keys_width = key_heads * width, values_width = key_heads * value_width;
  Buffer<float> key_room, value_room;
  const float* keys = memory.floats;
  const float* values = memory.floats;
  if (has_key) {
    float* out = key_room.need(memory.count * keys_width);
    key.run(machine, memory, out);
    keys = out;
  }
  if (has_value) {
    float* out = value_room.need(memory.count * values_width);
    value.run(machine, memory, out);
    values = out;
  }
  for (size_t sentence = 0; sentence < held.size(); ++sentence) {
    held[sentence]->items = starts[sentence + 1] - starts[sentence];
    keep(machine, keys + starts[sentence] * keys_width, values + starts[sentence] * values_width, held[sentence]);
  }
}

// Of one sentence, item by item, to where attention reads them.
void MemoryAttention::keep(const Machine& machine, const float* keys, const float* values, Held* held) const {
  int64_t keys_width = key_heads * width, values_width = key_heads * value_width;
  int64_t items = held->items, across = padded(items);
  if (machine.quantised && !energy) {
    int64_t inputs = (width + 1) / 2, room = pair_room(value_width);
    uint32_t* pairs = held->key_pairs.need(key_heads * inputs * across);
    for (int64_t head = 0; head < key_heads; ++head)
      machine.kernels.pair_keys(keys + head * width, items, width, keys_width, pairs + head * inputs * across);
    pairs = held->value_pairs.need(key_heads * items * room);
    for (int64_t item = 0; item < items; ++item, values += values_width, pairs += room)
      machine.kernels.pair_heads(values, key_heads, value_width, pairs, items * room);
    return;
  }
  std::memcpy(held->values.need(items * values_width), values, sizeof(float) * items * values_width);
  if (energy) {
    std::memcpy(held->keys.need(items * keys_width), keys, sizeof(float) * items * keys_width);
    held->small = machine.kernels.powers(keys, items * keys_width, held->powers.need(items * keys_width));
    return;
  }
  float* turned = held->keys.need(keys_width * across);
  for (int64_t column = 0; column < keys_width; ++column)
    for (int64_t item = 0; item < across; ++item)
      turned[column * across + item] = item < items ? keys[item * keys_width + column] : 0.0f;
}

// Room for the weights of all rows; those of heads are added to it.
static float* clean_weights(MemoryAttention::Room& room, const std::vector<Group>& groups,
                            const std::vector<const Held*>& held) {
  room.weight_starts.clear();
  int64_t total = 0;
  for (const Group& group : groups)
    for (int64_t row = 0; row < group.count; ++row, total += held[group.slot]->items)
      room.weight_starts.push_back(total);
  float* weights = room.weights.need(total);
  std::fill_n(weights, total, 0.0f);
  return weights;
}

void MemoryAttention::contexts(const Machine& machine, Room& room, const Rows& rows, const std::vector<Group>& groups,
                               const std::vector<const Held*>& held, float* out, int64_t stride) const {
  const float* queries = rows.floats;
  int64_t query_stride = rows.stride;
  if (has_query) {
    float* made = room.queries.need(rows.count * heads * width);
    query.run(machine, rows, made);
    queries = made;
    query_stride = heads * width;
  }
  float* weights = room.weighs ? clean_weights(room, groups, held) : nullptr;
  for (const Group& group : groups) {
    const Held& one = *held[group.slot];
    float* scores = room.scores.need(HEADS_TOGETHER * 6 * padded(one.items) + padded(width));
    if (energy) {
      for (int64_t row = group.first; row < group.first + group.count; ++row) {
        AttendAdditive a;
        a.query = queries + row * query_stride;
        a.heads = heads;
        a.width = width;
        a.value_width = value_width;
        a.items = one.items;
        a.keys = one.keys.get();
        a.powers = one.small ? one.powers.get() : nullptr;
        a.values = one.values.get();
        a.energy = energy;
        a.scores = scores;
        a.room = scores + HEADS_TOGETHER * 6 * padded(one.items);
        a.weights = weights ? weights + room.weight_starts[row] : nullptr;
        a.weighed = room.weighed;
        a.out = out + row * stride;
        machine.kernels.attend_additive(a);
      }
      continue;
    }
    Attend a;
    a.rows = group.count;
    a.queries = queries + group.first * query_stride;
    a.query_stride = query_stride;
    a.heads = heads;
    a.key_heads = key_heads;
    a.width = width;
    a.value_width = value_width;
    a.items = one.items;
    a.keys = one.keys.get();
    a.values = one.values.get();
    a.key_pairs = one.key_pairs.get();
    a.value_pairs = one.value_pairs.get();
    if (&group != &groups.back()) {
      const Held& next = *held[(&group + 1)->slot];
      a.keys_ahead = reinterpret_cast<intptr_t>(next.key_pairs.get()) - reinterpret_cast<intptr_t>(a.key_pairs);
      a.values_ahead = reinterpret_cast<intptr_t>(next.value_pairs.get()) - reinterpret_cast<intptr_t>(a.value_pairs);
    }
    a.value_stride = key_heads * value_width;
    a.scale = scale;
    a.scores = scores;
    a.weights = weights ? weights + room.weight_starts[group.first] : nullptr;
    a.weighed = room.weighed;
    a.out = out + group.first * stride;
    a.out_stride = stride;
    machine.kernels.attend(a);
  }
}

}  // namespace regard
