// Recurrent cells and networks, with the equations of regard/nn/cells.py.
#pragma once

#include "model.h"

namespace regard {

enum class CellKind : int64_t { elman = 0, lstm = 1, gru = 2, gru_cho = 3 };

// What its input gives to a step of a cell: for each row [blocks * width], and a product on top of it where there is one.
struct Given {
  const float* products = nullptr;       // one behind the other, or
  const float* const* each = nullptr;    // of each row
  const Rows* rows = nullptr;            // and
  const Linear* linear = nullptr;
};

struct CellRoom {
  Buffer<float> given, total, update, reset, candidate;
  Bytes bytes, reset_bytes;
};

// One step of many rows; a state is [parts][width].
struct Cell {
  CellKind kind = CellKind::elman;
  int64_t width = 0;
  Linear recurrent, gates, candidate;  // gru_cho has the last two

  static Cell load(const File& file, const std::string& name, CellKind kind, int64_t width, bool quantised);
  int64_t parts() const { return kind == CellKind::lstm ? 2 : 1; }
  int64_t blocks() const;
  // States lie `stride` apart.
  void step(const Machine& machine, CellRoom& room, const Given& given, int64_t rows, const float* state,
            int64_t stride, float* out, int64_t out_stride) const;

 private:
  // [rows][blocks * width] of what is given.
  const float* made(const Machine& machine, CellRoom& room, const Given& given, int64_t rows) const;
  // What is given, and the product with the states.
  float* total(const Machine& machine, CellRoom& room, const Given& given, const Rows& states) const;
  void step_cho(const Machine& machine, CellRoom& room, const float* products, const Rows& states, const float* state,
                int64_t stride, float* out, int64_t out_stride) const;
};

struct RecurrentLayer {
  Linear inputs;
  Cell cell;
};

// Layers of one cell in one direction.
struct Network {
  int64_t width = 0, layer_count = 0;
  bool residual = false;
  std::vector<RecurrentLayer> layers;

  static Network load(const File& file, const std::string& side, const std::string& name, int64_t input_width,
                      int64_t upper_width, bool quantised);
  int64_t parts() const { return layers[0].cell.parts(); }
  int64_t blocks() const { return layers[0].cell.blocks(); }
  int64_t state_width() const { return layer_count * parts() * width; }

  struct Room {
    CellRoom cell;
    Buffer<float> products, read[2];
    Bytes bytes;
  };
  // One step: what is given to the first layer, states [rows][layers][parts][width] -> new states, and what the last
  // layer says, `stride` from row to row.
  void step(const Machine& machine, Room& room, Given given, int64_t rows, const float* states, float* out, float* said,
            int64_t stride) const;
};

}  // namespace regard
