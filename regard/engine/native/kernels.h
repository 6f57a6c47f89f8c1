// What the engine asks of the processor. Each set of instructions has a table of these functions, made of the same
// sources (kernel_*.h) in a translation unit of its own; `kernels_wanted()` says which is used.
//
// No function here lets one row see another: what comes out for a row does not depend on how many there are.
#pragma once

#include <stdint.h>

namespace regard {

constexpr int PANEL = 64;      // columns of weights that stand together
constexpr int LONGEST_K = 64;  // the most candidates of a row
constexpr int HEADS_TOGETHER = 4;  // heads whose scores are held at the same time

enum class Activation : int32_t { none = 0, relu = 1, gelu = 2, silu = 3, tanh = 4, gelu_tanh = 5 };

// x W + b with W packed in panels of 64 columns; everything is padded to whole panels.
struct Weights {
  int64_t inputs = 0;
  int64_t outputs = 0;
  const float* floats = nullptr;   // [panels][inputs][64], or null
  const int8_t* bytes = nullptr;   // [panels][ceil(inputs / 4)][64][4], or null
  const float* scales = nullptr;   // [panels * 64] of the bytes
  const int32_t* shift = nullptr;  // [panels * 64] -128 times the sum of the column: what shifted activations add
  const float* bias = nullptr;     // [panels * 64]
};

// Rows of activations, as floats, and as bytes where weights are bytes: q + 128 with x = q * scale.
struct Rows {
  int64_t count = 0;
  int64_t width = 0;
  const float* floats = nullptr;
  int64_t stride = 0;
  const uint8_t* bytes = nullptr;
  int64_t byte_stride = 0;
  const float* scales = nullptr;
};

// Where a product goes: activation(x W + b) + residual.
struct Store {
  float* out = nullptr;
  int64_t stride = 0;
  const float* residual = nullptr;
  int64_t residual_stride = 0;
  Activation activation = Activation::none;
};

struct NormWeights {
  const float* gain = nullptr;
  const float* bias = nullptr;  // null: x / sqrt(mean(x^2) + epsilon) * gain
  float epsilon = 0;
};

// Words that hold the numbers of a head in pairs.
constexpr int64_t pair_room(int64_t width) { return (width + 31) / 32 * 16; }

struct Candidate {
  float value;
  int32_t token;
};

// What is asked about a row of the output projection, and what is found.
struct Projected {
  const int32_t* forbidden = nullptr;  // these do not become candidates
  int32_t forbidden_count = 0;
  int32_t wanted = -1;          // a token whose logit is asked for; -1: none
  float wanted_logit = 0;
  float largest = 0;            // of all logits
  int32_t found = 0;
  float sums[16] = {};          // exp(logit - largest), in so many parts
  Candidate best[LONGEST_K];    // largest logit first, of equals the lower token first
};

// Queries of one sentence over its keys. Heads share keys in equal groups.
struct Attend {
  int64_t rows = 0;
  const float* queries = nullptr;  // [rows][heads * width]
  int64_t query_stride = 0;
  int64_t heads = 0;
  int64_t key_heads = 0;
  int64_t width = 0;        // of the keys of a head
  int64_t value_width = 0;  // of the values of a head
  int64_t items = 0;
  const float* keys = nullptr;    // [key_heads][width][padded items]
  const float* values = nullptr;  // [items][key_heads * value_width]
  int64_t value_stride = 0;
  const uint32_t* key_pairs = nullptr;    // instead of floats: [key_heads][ceil(width / 2)][padded items]; or null
  const uint32_t* value_pairs = nullptr;  // [key_heads][items][pair_room(value_width)]
  int64_t keys_ahead = 0;                 // how many bytes behind these pairs those lie that are attended to next
  int64_t values_ahead = 0;
  float scale = 0;
  const float* bias = nullptr;  // [heads][bias_stride]: of key j for query i at bias[bias_middle + j - i]; or null
  int64_t bias_stride = 0;
  int64_t bias_middle = 0;
  float* scores = nullptr;   // room for [HEADS_TOGETHER][6][padded items]
  float* weights = nullptr;  // [rows][items] the weights of a head, or the mean of all, are added here; or null
  int64_t weighed = -1;      // which head; -1: the mean of all
  float* out = nullptr;      // [rows][heads * value_width]
  int64_t out_stride = 0;
};

// One query over keys that lie anywhere: item t has the keys of all its heads at items[t], and its values behind them.
struct AttendPast {
  const float* query = nullptr;
  int64_t heads = 0;
  int64_t key_heads = 0;
  int64_t width = 0;
  const void* const* items = nullptr;  // [padded count], the last again behind the last
  bool pairs = false;  // an item is of words, pair_room(width) for each head; else of floats
  int64_t count = 0;
  float scale = 0;
  const float* bias = nullptr;  // [heads][bias_stride]: of item t at bias[bias_middle + t - (count - 1)]; or null
  int64_t bias_stride = 0;
  int64_t bias_middle = 0;
  float* scores = nullptr;  // room for [HEADS_TOGETHER][padded count]
  float* out = nullptr;     // [heads * width]
};

// energy . tanh(query + key), for each head. As tanh(q + k) = 1 - 2 / (e^2q e^2k + 1), exponentials of queries and of keys
// alone are enough where these are small enough to be multiplied.
struct AttendAdditive {
  const float* query = nullptr;  // [heads * width]
  int64_t heads = 0;
  int64_t width = 0;
  int64_t value_width = 0;
  int64_t items = 0;
  const float* keys = nullptr;    // [items][heads * width]
  const float* powers = nullptr;  // of the keys, by `powers`; or null
  const float* values = nullptr;  // [items][heads * value_width]
  const float* energy = nullptr;  // [heads][width]
  float* scores = nullptr;        // room for [padded items]
  float* room = nullptr;          // for [width]
  float* weights = nullptr;       // as above; or null
  int64_t weighed = -1;
  float* out = nullptr;
};

struct Kernels {
  const char* name;
  void (*quantise)(const float* in, int64_t rows, int64_t width, int64_t stride, uint8_t* out, int64_t out_stride,
                   float* scales);
  // Norm of rows; the result also as bytes where `bytes` is not null.
  void (*norm)(const NormWeights& weights, const float* in, int64_t rows, int64_t width, float* out, uint8_t* bytes,
               int64_t byte_stride, float* scales);
  void (*product)(const Rows& rows, const Weights& weights, const Store& store);
  // x W + b + (y V + c + residual): no activation.
  void (*product_sum)(const Rows& rows, const Weights& weights, const Rows& more, const Weights& more_weights,
                      const Store& store);
  void (*product_int32)(const Rows& rows, const Weights& weights, int32_t* out);
  void (*project)(const Rows& rows, const Weights& weights, int32_t candidates, Projected* projected);
  void (*attend)(const Attend& attend);
  void (*attend_past)(const AttendPast& attend);
  void (*attend_additive)(const AttendAdditive& attend);
  // e^2x of all numbers; false, and nothing written, where one is beyond what can be multiplied.
  bool (*powers)(const float* in, int64_t count, float* out);
  // out = activation(gate) * value; rows hold gate and value side by side.
  void (*gate)(const float* in, int64_t rows, int64_t width, Activation activation, float* out);
  void (*activate)(float* values, int64_t count, Activation activation);
  // Pairs (x_2i, x_2i+1) of each head turn by the angle of their row: `turns` is [width / 2] cosines, then sines.
  void (*turn)(float* row, int64_t heads, int64_t width, const float* turns);
  // total [4 * width] -> state and memory.
  void (*lstm)(const float* total, const float* memory, int64_t width, float* state, float* new_memory);
  // products of the input and of the state [3 * width] -> state.
  void (*gru)(const float* products, const float* recurrent, const float* state, int64_t width, float* out);
  // total of the gates [2 * width] -> reset * state, and the update gate.
  void (*gru_cho_gates)(const float* total, const float* state, int64_t width, float* reset, float* update);
  void (*gru_cho_blend)(const float* total, const float* state, const float* update, int64_t width, float* out);
  // Heads of a row in pairs, each `stride` words behind the one before.
  void (*pair_heads)(const float* in, int64_t heads, int64_t width, uint32_t* out, int64_t stride);
  // Keys of one head of all items, `stride` from item to item, in pairs of inputs: [ceil(width / 2)][padded items].
  void (*pair_keys)(const float* in, int64_t items, int64_t width, int64_t stride, uint32_t* out);
  // Of the logits of a row, in whole panels: the largest of each panel, and `largest` and `sums` of all.
  void (*survey)(const float* logits, int64_t panels, float* largest, Projected* projected);
  // Weights that samples are drawn by, exp((log p - best) / temperature), and their sums panel by panel.
  void (*weigh)(const float* logits, int64_t panels, double normaliser, double best, double temperature,
                double* weights, double* sums);
};

// The name of the table to use: that in REGARD_ENGINE_KERNELS where it is set, which need not be there, else the best.
const char* kernels_wanted();
// A table by its name; null where the processor or the build does not have it.
const Kernels* kernels_by_name(const char* name);
// Names of all tables that work here, best first, with spaces between.
const char* kernels_here();

const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avx_vnni_kernels();
const Kernels* avx512_kernels();
const Kernels* amx_kernels();

}  // namespace regard
