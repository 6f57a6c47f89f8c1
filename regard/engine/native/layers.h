// Parts of models: linear maps, norms, positions, attention to a memory.
#pragma once

#include <string>
#include <vector>

#include "file.h"
#include "kernels.h"
#include "room.h"

namespace regard {

constexpr int64_t MOST_WIDTH = 32768;  // sums of bytes of so many inputs fit into 32 bits
constexpr int64_t MOST_LAYERS = 1000;
constexpr int64_t MOST_TOKENS = int64_t{1} << 24;

inline int64_t padded(int64_t items) { return (items + 15) / 16 * 16; }

// Room for one set of quantised rows.
struct Bytes {
  Buffer<uint8_t> bytes;
  Buffer<float> scales;
};

// The kernels, and whether the model's weights are bytes.
struct Machine {
  const Kernels& kernels;
  bool quantised;

  // Rows for products; quantised where weights are bytes.
  Rows rows(Bytes& room, const float* values, int64_t count, int64_t width, int64_t stride) const;
  Rows rows(Bytes& room, const float* values, int64_t count, int64_t width) const {
    return rows(room, values, count, width, width);
  }
};

struct Linear {
  Weights weights;

  static Linear load(const File& file, const std::string& name, int64_t inputs, int64_t outputs, bool quantised);
  int64_t outputs() const { return weights.outputs; }
  // activation(x W + b) + residual; `out` and `residual` are dense.
  void run(const Machine& machine, const Rows& rows, float* out, Activation activation = Activation::none,
           const float* residual = nullptr) const;
};

struct Norm {
  NormWeights weights;
  int64_t width = 0;

  static Norm load(const File& file, const std::string& name, int64_t width);
  bool there() const { return width != 0; }
  // `out` may be `in`.
  Rows run(const Machine& machine, Bytes& room, const float* in, int64_t count, float* out) const;
};

Activation activation_of(const File& file, const std::string& name);

// What is told of positions: added to embeddings, or how two items of self-attention stand to each other.
class Positions {
 public:
  static Positions load(const File& file, const std::string& side, int64_t width, int64_t heads, int64_t head_width);
  int64_t longest() const { return longest_; }  // 0: no limit
  void add(float* row, int64_t position) const;
  bool turns() const { return kind_ == Kind::rotary; }
  bool biased() const { return kind_ == Kind::bias || kind_ == Kind::alibi; }
  // Cosines and sines of a position: [head_width].
  void turns_at(int64_t position, float* out) const;
  // [heads][2 * furthest + 1 + 16]: what is added to the score of an item so far away, middle at `furthest`.
  void biases(int64_t furthest, std::vector<float>* out) const;

 private:
  enum class Kind : int64_t { none = 0, added = 1, waves = 2, bias = 3, alibi = 4, rotary = 5 };
  Kind kind_ = Kind::none;
  int64_t width_ = 0, heads_ = 0, head_width_ = 0, longest_ = 0, prepared_ = 0, furthest_ = 0;
  bool halves_ = false;
  const float* table_ = nullptr;  // [prepared][width] | [heads][2 * furthest + 1] | [heads]
};

// Tables of a scheme of positions that grow with what is asked for; one for each worker.
struct PositionRoom {
  std::vector<float> biases;
  int64_t furthest = -1;
  std::vector<float> turns;  // [positions][head_width]

  void reach(const Positions& positions, int64_t items, int64_t head_width);
  int64_t stride() const { return 2 * furthest + 1 + 16; }
};

// Keys and values of the memory of one sentence: in pairs where weights are bytes and scores are not additive.
struct Held {
  int64_t items = 0;
  Buffer<float> keys;
  Buffer<float> values;
  Buffer<uint32_t> key_pairs;
  Buffer<uint32_t> value_pairs;
  Buffer<float> powers;  // of keys of an additive score
  bool small = false;    // and whether there are any
};

// Rows of one sentence that stand together.
struct Group {
  int64_t slot;
  int64_t first;
  int64_t count;
};

// Attention to a memory with any score, projections and number of heads.
struct MemoryAttention {
  int64_t heads = 0, key_heads = 0, width = 0, value_width = 0, memory_width = 0;
  float scale = 0;
  bool has_query = false, has_key = false, has_value = false, has_output = false;
  Linear query, key, value, output;
  const float* energy = nullptr;  // [heads][width]: additive

  static MemoryAttention load(const File& file, const std::string& name, int64_t query_width, int64_t memory_width,
                              bool quantised);
  int64_t context_width() const { return has_output ? output.outputs() : heads * value_width; }
  // Keys and values of a memory that holds `held.size()` sentences, one behind the other.
  void prepare(const Machine& machine, const Rows& memory, const std::vector<int64_t>& starts,
               const std::vector<Held*>& held) const;
  void keep(const Machine& machine, const float* keys, const float* values, Held* held) const;
  struct Room {
    Buffer<float> queries, scores;
    Bytes bytes;
    bool weighs = false;
    int64_t weighed = -1;   // a head; -1: the mean of all
    Buffer<float> weights;  // of all rows, one behind the other; where `weighs`
    std::vector<int64_t> weight_starts;
  };
  // Contexts before the output projection: of each row [heads * value_width], `stride` from row to row.
  void contexts(const Machine& machine, Room& room, const Rows& rows, const std::vector<Group>& groups,
                const std::vector<const Held*>& held, float* out, int64_t stride) const;
};

}  // namespace regard
