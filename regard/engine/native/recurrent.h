// Recurrent cells and networks, with the equations of regard/nn/cells.py.
#pragma once

#include "model.h"

namespace regard {

enum class CellKind : int64_t { elman = 0, lstm = 1, gru = 2, gru_cho = 3 };

// What rows go on from. In a beam several rows often have one past; what depends on it alone is made once for them.
struct Past {
  const float* states = nullptr;  // [count], `stride` apart
  int64_t count = 0, stride = 0;
  const int32_t* of = nullptr;  // which of them is a row's; null: each row has its own

  int64_t place(int64_t row) const { return of ? of[row] : row; }
};

// What its input gives to a step of a cell: [blocks * width] for each row, and for each past a product on top of it
// where there is one.
struct Given {
  const float* products = nullptr;     // of rows, one behind the other, or
  const float* const* each = nullptr;  // of each row
  const Rows* carried = nullptr;       // of pasts, and
  const Linear* linear = nullptr;

  const float* of(int64_t row, int64_t across) const { return each ? each[row] : products + row * across; }
};

struct CellRoom {
  Buffer<float> given, total, carried, update, reset, candidate;
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
  void step(const Machine& machine, CellRoom& room, const Given& given, const Past& past, int64_t rows, float* out,
            int64_t stride) const;

 private:
  void step_added(const Machine& machine, CellRoom& room, const Given& given, const Past& past, int64_t rows,
                  float* out, int64_t stride) const;
  void step_gru(const Machine& machine, CellRoom& room, const Given& given, const Past& past, int64_t rows, float* out,
                int64_t stride) const;
  void step_cho(const Machine& machine, CellRoom& room, const Given& given, const Past& past, int64_t rows, float* out,
                int64_t stride) const;
  // The product that each past is given; null: none.
  const float* carried(const Machine& machine, CellRoom& room, const Given& given) const;
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
  // One step: what is given to the first layer, states [layers][parts][width] -> new states [rows], and what the last
  // layer says, `stride` from row to row.
  void step(const Machine& machine, Room& room, Given given, const Past& past, int64_t rows, float* out, float* said,
            int64_t stride) const;
};

}  // namespace regard
