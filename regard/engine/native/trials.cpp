// For tests and benchmarks: single kernels, to be compared with plain references, and a search by the clock.
#include <algorithm>
#include <cmath>
#include <vector>

#include "guard.h"
#include "requests.h"
#include "search.h"

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

// Weights of logits in whole panels, with the sum of each panel. about: the largest of all logits, and the sum of
// exponentials; largest: of each panel.
REGARD_API int32_t regard_try_weigh(const char* name, const float* logits, int64_t panels, double temperature,
                                    float* largest, double* about, double* weights, double* sums) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  Projected one;
  table->survey(logits, panels, largest, &one);
  about[0] = one.largest;
  about[1] = 0;
  for (float part : one.sums) about[1] += part;
  double normaliser = about[0] + std::log(about[1]);
  table->weigh(logits, panels, normaliser, static_cast<float>(about[0] - normaliser), temperature, weights, sums);
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

namespace {

// Keys and values [items][key_heads * width] as a decoder keeps them.
struct Kept {
  std::vector<uint32_t> keys, values;
  std::vector<std::vector<uint32_t>> items;  // keys and values of an item, of a past

  Kept(const Kernels& table, const float* key, const float* value, int64_t count, int64_t heads, int64_t width) {
    int64_t padded = (count + 15) / 16 * 16, inputs = (width + 1) / 2, room = pair_room(width);
    keys.resize(heads * inputs * padded);
    values.resize(heads * count * room);
    for (int64_t head = 0; head < heads; ++head)
      table.pair_keys(key + head * width, count, width, heads * width, keys.data() + head * inputs * padded);
    for (int64_t item = 0; item < count; ++item) {
      table.pair_heads(value + item * heads * width, heads, width, values.data() + item * room, count * room);
      items.emplace_back(2 * heads * room);
      table.pair_heads(key + item * heads * width, heads, width, items.back().data(), room);
      table.pair_heads(value + item * heads * width, heads, width, items.back().data() + heads * room, room);
    }
  }
};

}  // namespace

// Contexts of queries [rows][heads * width] over a memory, then those of the first over the same as its past; keys and
// values in pairs. There must be at least one of each.
REGARD_API int32_t regard_try_pairs(const char* name, const float* queries, int64_t rows, const float* keys,
                                    const float* values, int64_t heads, int64_t key_heads, int64_t width, int64_t items,
                                    float scale, float* out, float* past) {
  const Kernels* table = kernels_by_name(name);
  if (!table) return 1;
  char message[MESSAGE];
  return guarded(message, [&] {
    if (std::min({rows, heads, key_heads, width, items}) < 1) throw Refused("there is nothing to attend to");
    Kept kept(*table, keys, values, items, key_heads, width);
    std::vector<float> scores(HEADS_TOGETHER * 6 * ((items + 15) / 16 * 16));
    Attend a;
    a.rows = rows;
    a.queries = queries;
    a.query_stride = a.out_stride = heads * width;
    a.heads = heads;
    a.key_heads = key_heads;
    a.width = a.value_width = width;
    a.items = items;
    a.key_pairs = kept.keys.data();
    a.value_pairs = kept.values.data();
    a.scale = scale;
    a.scores = scores.data();
    a.out = out;
    table->attend(a);
    std::vector<const void*> places;
    for (int64_t item = 0; item < (items + 15) / 16 * 16; ++item)
      places.push_back(kept.items[item < items ? item : items - 1].data());
    AttendPast b;
    b.query = queries;
    b.heads = heads;
    b.key_heads = key_heads;
    b.width = width;
    b.items = places.data();
    b.pairs = true;
    b.count = items;
    b.scale = scale;
    b.scores = scores.data();
    b.out = past;
    table->attend_past(b);
  });
}

// A search for one sentence that stops early, on this thread: the seconds of its beginning, its encoder and first step,
// and each further step. `times` has room for limit + 1; how many there are goes to `count`.
REGARD_API int32_t regard_try_steps(const void* engine, const int32_t* ids, int64_t length, int64_t beam,
                                    int64_t capacity, int64_t limit, double* times, int64_t* count, char* message) {
  return guarded(message, [&] {
    const Engine& here = *static_cast<const Engine*>(engine);
    check_beam(beam);
    check_sharing(capacity, 1);
    int64_t most = checked_limit(here.model, limit, "the request");
    std::vector<Request> requests{Request{{ids, length}, nullptr, 0, most, 0}};
    check_source(here.model, requests[0].source, "the request");
    Options options;
    options.beam = beam;
    options.length_penalty = 1;
    options.early = true;
    std::vector<double> clock;
    clock.reserve(limit + 1);
    Work work(here.model, here.machine, here.decodings, options, requests, capacity, 1);
    work.clock = &clock;
    clock.push_back(seconds());
    search(work);
    *count = static_cast<int64_t>(clock.size());
    std::copy(clock.begin(), clock.end(), times);
  });
}
