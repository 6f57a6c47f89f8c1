// Single kernels for the tests: each is compared with a plain reference.
#include <cstring>

#include "kernels.h"

#define REGARD_API extern "C" __attribute__((visibility("default")))

using namespace regard;

REGARD_API int32_t regard_try_int8(const char* name, const uint8_t* rows, int64_t count, int64_t stride,
                                   const int8_t* bytes, const int32_t* shift, int64_t inputs, int64_t outputs,
                                   int32_t* out) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  Rows in;
  in.count = count;
  in.bytes = rows;
  in.byte_stride = stride;
  Weights weights;
  weights.inputs = inputs;
  weights.outputs = outputs;
  weights.bytes = bytes;
  weights.shift = shift;
  table->product_int32(in, weights, out);
  return 0;
}

REGARD_API int32_t regard_try_product(const char* name, const float* rows, int64_t count, const float* floats,
                                      const float* bias, int64_t inputs, int64_t outputs, int32_t activation,
                                      const float* residual, float* out) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  Rows in;
  in.count = count;
  in.floats = rows;
  in.stride = inputs;
  Weights weights;
  weights.inputs = inputs;
  weights.outputs = outputs;
  weights.floats = floats;
  weights.bias = bias;
  Store store;
  store.out = out;
  store.stride = store.residual_stride = outputs;
  store.residual = residual;
  store.activation = static_cast<Activation>(activation);
  table->product(in, weights, store);
  return 0;
}

REGARD_API int32_t regard_try_quantise(const char* name, const float* in, int64_t rows, int64_t width, uint8_t* out,
                                       int64_t stride, float* scales) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  table->quantise(in, rows, width, width, out, stride, scales);
  return 0;
}

REGARD_API int32_t regard_try_norm(const char* name, const float* in, int64_t rows, int64_t width, const float* gain,
                                   const float* bias, float epsilon, float* out, uint8_t* bytes, int64_t stride,
                                   float* scales) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  table->norm(NormWeights{gain, bias, epsilon}, in, rows, width, out, bytes, stride, scales);
  return 0;
}

// best: candidates of each row as (token, logit); sums: largest logit and the sum of exponentials.
REGARD_API int32_t regard_try_project(const char* name, const float* rows, int64_t count, const float* floats,
                                      const float* bias, int64_t inputs, int64_t outputs, int32_t candidates,
                                      const int32_t* forbidden, int32_t forbidden_count, int32_t wanted, int32_t* tokens,
                                      float* logits, float* about) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  Rows in;
  in.count = count;
  in.floats = rows;
  in.stride = inputs;
  Weights weights;
  weights.inputs = inputs;
  weights.outputs = outputs;
  weights.floats = floats;
  weights.bias = bias;
  for (int64_t row = 0; row < count; ++row) {
    Projected one;
    one.forbidden = forbidden;
    one.forbidden_count = forbidden_count;
    one.wanted = wanted;
    in.floats = rows + row * inputs;
    in.count = 1;
    table->project(in, weights, candidates, &one);
    for (int32_t index = 0; index < candidates; ++index) {
      tokens[row * candidates + index] = index < one.found ? one.best[index].token : -1;
      logits[row * candidates + index] = index < one.found ? one.best[index].value : 0;
    }
    about[row * 3] = one.largest;
    about[row * 3 + 1] = 0;
    for (float part : one.sums) about[row * 3 + 1] += part;
    about[row * 3 + 2] = one.wanted_logit;
  }
  return 0;
}

REGARD_API int32_t regard_try_activate(const char* name, float* values, int64_t count, int32_t activation) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  table->activate(values, count, static_cast<Activation>(activation));
  return 0;
}

// A product of bytes with everything that is fused: activation(x W + b) + residual.
REGARD_API int32_t regard_try_bytes(const char* name, const uint8_t* rows, int64_t count, int64_t stride,
                                    const float* row_scales, const int8_t* bytes, const float* scales,
                                    const int32_t* shift, const float* bias, int64_t inputs, int64_t outputs,
                                    int32_t activation, const float* residual, float* out) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  Rows in;
  in.count = count;
  in.bytes = rows;
  in.byte_stride = stride;
  in.scales = row_scales;
  Weights weights;
  weights.inputs = inputs;
  weights.outputs = outputs;
  weights.bytes = bytes;
  weights.scales = scales;
  weights.shift = shift;
  weights.bias = bias;
  Store store;
  store.out = out;
  store.stride = store.residual_stride = outputs;
  store.residual = residual;
  store.activation = static_cast<Activation>(activation);
  table->product(in, weights, store);
  return 0;
}

// Contexts of one query with an additive score; powers, scores and room are for use.
REGARD_API int32_t regard_try_additive(const char* name, const float* query, const float* keys, const float* values,
                                       const float* energy, int64_t heads, int64_t width, int64_t items, float* powers,
                                       float* scores, float* room, float* weights, float* out) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  AttendAdditive a;
  a.query = query;
  a.heads = heads;
  a.width = a.value_width = width;
  a.items = items;
  a.keys = keys;
  a.powers = table->powers(keys, items * heads * width, powers) ? powers : nullptr;
  a.values = values;
  a.energy = energy;
  a.scores = scores;
  a.room = room;
  a.weights = weights;
  a.out = out;
  table->attend_additive(a);
  return 0;
}

// A cell of long short-term memory, from the totals of its gates.
REGARD_API int32_t regard_try_lstm(const char* name, const float* total, const float* memory, int64_t width,
                                   float* state, float* new_memory) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  table->lstm(total, memory, width, state, new_memory);
  return 0;
}
