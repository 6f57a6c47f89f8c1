#include "recurrent.h"

#include <cstring>

namespace regard {

int64_t Cell::blocks() const {
  switch (kind) {
    case CellKind::lstm: return 4;
    case CellKind::gru:
    case CellKind::gru_cho: return 3;
    default: return 1;
  }
}

Cell Cell::load(const File& file, const std::string& name, CellKind kind, int64_t width, bool quantised) {
  Cell cell;
  cell.kind = kind;
  cell.width = width;
  if (kind == CellKind::gru_cho) {
    cell.gates = Linear::load(file, name + ".gates", width, 2 * width, quantised);
    cell.candidate = Linear::load(file, name + ".candidate", width, width, quantised);
  } else {
    cell.recurrent = Linear::load(file, name + ".recurrent", width, cell.blocks() * width, quantised);
  }
  return cell;
}

void Cell::step(const Machine& machine, CellRoom& room, const Given& given, const Past& past, int64_t rows, float* out,
                int64_t stride) const {
  switch (kind) {
    case CellKind::elman:
    case CellKind::lstm: return step_added(machine, room, given, past, rows, out, stride);
    case CellKind::gru: return step_gru(machine, room, given, past, rows, out, stride);
    case CellKind::gru_cho: return step_cho(machine, room, given, past, rows, out, stride);
  }
}

static void add(const float* one, const float* other, int64_t count, float* out) {
  for (int64_t place = 0; place < count; ++place) out[place] = one[place] + other[place];
}

const float* Cell::carried(const Machine& machine, CellRoom& room, const Given& given) const {
  if (!given.linear) return nullptr;
  float* out = room.carried.need(given.carried->count * blocks() * width);
  given.linear->run(machine, *given.carried, out);
  return out;
}

// Cells that read the sum of all products.
void Cell::step_added(const Machine& machine, CellRoom& room, const Given& given, const Past& past, int64_t rows,
                      float* out, int64_t stride) const {
  const Kernels& kernels = machine.kernels;
  int64_t across = blocks() * width;
  Rows states = machine.rows(room.bytes, past.states, past.count, width, past.stride);
  Store store;
  store.out = room.total.need(past.count * across);
  store.stride = across;
  if (given.linear)
    kernels.product_sum(states, recurrent.weights, *given.carried, given.linear->weights, store);
  else
    kernels.product(states, recurrent.weights, store);
  float* whole = room.given.need(across);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t place = past.place(row);
    float* to = out + row * stride;
    const float* total = store.out + place * across;
    if (kind == CellKind::elman) {
      add(total, given.of(row, across), across, to);
      kernels.activate(to, width, Activation::tanh);
      continue;
    }
    add(total, given.of(row, across), across, whole);
    kernels.lstm(whole, past.states + place * past.stride + width, width, to, to + width);
  }
}

void Cell::step_gru(const Machine& machine, CellRoom& room, const Given& given, const Past& past, int64_t rows,
                    float* out, int64_t stride) const {
  int64_t across = blocks() * width;
  float* total = room.total.need(past.count * across);
  recurrent.run(machine, machine.rows(room.bytes, past.states, past.count, width, past.stride), total);
  const float* more = carried(machine, room, given);
  float* whole = room.given.need(across);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t place = past.place(row);
    const float* products = given.of(row, across);
    if (more) {
      add(more + place * across, products, across, whole);
      products = whole;
    }
    machine.kernels.gru(products, total + place * across, past.states + place * past.stride, width, out + row * stride);
  }
}

void Cell::step_cho(const Machine& machine, CellRoom& room, const Given& given, const Past& past, int64_t rows,
                    float* out, int64_t stride) const {
  const Kernels& kernels = machine.kernels;
  int64_t across = blocks() * width, gated = 2 * width;
  float* total = room.total.need(past.count * gated + gated);
  float* whole = total + past.count * gated;
  gates.run(machine, machine.rows(room.bytes, past.states, past.count, width, past.stride), total);
  const float* more = carried(machine, room, given);
  float* products = room.given.need(rows * across);
  float* reset = room.reset.need(rows * width);
  float* update = room.update.need(rows * width);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t place = past.place(row);
    float* own = products + row * across;
    if (more)
      add(more + place * across, given.of(row, across), across, own);
    else
      std::memcpy(own, given.of(row, across), sizeof(float) * across);
    add(total + place * gated, own, gated, whole);
    kernels.gru_cho_gates(whole, past.states + place * past.stride, width, reset + row * width, update + row * width);
  }
  Store store;
  store.out = room.candidate.need(rows * width);
  store.stride = width;
  store.residual = products + gated;
  store.residual_stride = across;
  kernels.product(machine.rows(room.reset_bytes, reset, rows, width), candidate.weights, store);
  for (int64_t row = 0; row < rows; ++row)
    kernels.gru_cho_blend(store.out + row * width, past.states + past.place(row) * past.stride, update + row * width,
                          width, out + row * stride);
}

Network Network::load(const File& file, const std::string& side, const std::string& name, int64_t input_width,
                      int64_t upper_width, bool quantised) {
  Network network;
  CellKind kind = static_cast<CellKind>(file.integer(side + ".cell", 0, 3));
  network.width = file.integer(side + ".width", 1, MOST_WIDTH);
  network.layer_count = file.integer(side + ".layers", 1, MOST_LAYERS);
  network.residual = file.flag(side + ".residual");
  for (int64_t index = 0; index < network.layer_count; ++index) {
    std::string layer = name + "." + std::to_string(index);
    RecurrentLayer one;
    one.cell = Cell::load(file, layer, kind, network.width, quantised);
    one.inputs = Linear::load(file, layer + ".inputs", index ? upper_width : input_width,
                              one.cell.blocks() * network.width, quantised);
    network.layers.push_back(one);
  }
  return network;
}

void Network::step(const Machine& machine, Room& room, Given given, const Past& past, int64_t rows, float* out,
                   float* said, int64_t stride) const {
  int64_t state = state_width(), each = parts() * width;
  const float* read = nullptr;
  for (int64_t index = 0; index < layer_count; ++index) {
    const RecurrentLayer& layer = layers[index];
    if (index) {
      float* made = room.products.need(rows * layer.inputs.outputs());
      layer.inputs.run(machine, machine.rows(room.bytes, read, rows, width), made);
      given = Given{made};
    }
    Past own = past;
    own.states += index * each;
    layer.cell.step(machine, room.cell, given, own, rows, out + index * each, state);
    bool last = index + 1 == layer_count;
    float* to = last ? said : room.read[index % 2].need(rows * width);
    int64_t across = last ? stride : width;
    for (int64_t row = 0; row < rows; ++row) {
      const float* from = out + row * state + index * each;
      if (!(residual && index)) {
        std::memcpy(to + row * across, from, sizeof(float) * width);
        continue;
      }
      for (int64_t column = 0; column < width; ++column)
        to[row * across + column] = read[row * width + column] + from[column];
    }
    read = to;
  }
}

}  // namespace regard
