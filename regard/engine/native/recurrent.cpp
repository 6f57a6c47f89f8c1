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

const float* Cell::made(const Machine& machine, CellRoom& room, const Given& given, int64_t rows) const {
  if (given.products && !given.linear) return given.products;
  int64_t across = blocks() * width;
  float* out = room.given.need(rows * across);
  if (given.linear) {
    Store store;
    store.out = out;
    store.stride = store.residual_stride = across;
    store.residual = given.products;
    store.residuals = given.each;
    machine.kernels.product(*given.rows, given.linear->weights, store);
    return out;
  }
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(out + row * across, given.each[row], sizeof(float) * across);
  return out;
}

float* Cell::total(const Machine& machine, CellRoom& room, const Given& given, const Rows& states) const {
  int64_t across = blocks() * width;
  Store store;
  store.out = room.total.need(states.count * across);
  store.stride = store.residual_stride = across;
  store.residual = given.products;
  store.residuals = given.each;
  if (given.linear)
    machine.kernels.product_sum(states, recurrent.weights, *given.rows, given.linear->weights, store);
  else
    machine.kernels.product(states, recurrent.weights, store);
  return store.out;
}

void Cell::step(const Machine& machine, CellRoom& room, const Given& given, int64_t rows, const float* state,
                int64_t stride, float* out, int64_t out_stride) const {
  const Kernels& kernels = machine.kernels;
  Rows states = machine.rows(room.bytes, state, rows, width, stride);
  int64_t across = blocks() * width;
  float* whole = nullptr;
  const float* products = nullptr;
  switch (kind) {
    case CellKind::elman:
      whole = total(machine, room, given, states);
      kernels.activate(whole, rows * width, Activation::tanh);
      for (int64_t row = 0; row < rows; ++row)
        std::memcpy(out + row * out_stride, whole + row * width, sizeof(float) * width);
      return;
    case CellKind::lstm:
      whole = total(machine, room, given, states);
      for (int64_t row = 0; row < rows; ++row)
        kernels.lstm(whole + row * across, state + row * stride + width, width, out + row * out_stride,
                     out + row * out_stride + width);
      return;
    case CellKind::gru:
      products = made(machine, room, given, rows);
      whole = room.total.need(rows * across);
      recurrent.run(machine, states, whole);
      for (int64_t row = 0; row < rows; ++row)
        kernels.gru(products + row * across, whole + row * across, state + row * stride, width,
                    out + row * out_stride);
      return;
    case CellKind::gru_cho:
      step_cho(machine, room, made(machine, room, given, rows), states, state, stride, out, out_stride);
  }
}

void Cell::step_cho(const Machine& machine, CellRoom& room, const float* products, const Rows& states,
                    const float* state, int64_t stride, float* out, int64_t out_stride) const {
  const Kernels& kernels = machine.kernels;
  int64_t rows = states.count;
  float* total = room.total.need(rows * 2 * width);
  Store store;  // the gates: two blocks of three
  store.out = total;
  store.stride = 2 * width;
  store.residual = products;
  store.residual_stride = blocks() * width;
  kernels.product(states, gates.weights, store);
  float* reset = room.reset.need(rows * width);
  float* update = room.update.need(rows * width);
  for (int64_t row = 0; row < rows; ++row)
    kernels.gru_cho_gates(total + row * 2 * width, state + row * stride, width, reset + row * width,
                          update + row * width);
  store.out = room.candidate.need(rows * width);
  store.stride = width;
  store.residual = products + 2 * width;
  kernels.product(machine.rows(room.reset_bytes, reset, rows, width), candidate.weights, store);
  for (int64_t row = 0; row < rows; ++row)
    kernels.gru_cho_blend(store.out + row * width, state + row * stride, update + row * width, width,
                          out + row * out_stride);
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

void Network::step(const Machine& machine, Room& room, Given given, int64_t rows, const float* states, float* out,
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
    layer.cell.step(machine, room.cell, given, rows, states + index * each, state, out + index * each, state);
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
