// Attention of given outputs to their sources: one pass over each pair that reads the output as it is.
//
// A pass of its own costs less than keeping the weights of all rows of a beam, and a search has nothing to do with it.
#include <algorithm>
#include <memory>
#include <vector>

#include "guard.h"
#include "requests.h"
#include "workers.h"

namespace {

using namespace regard;

struct AskedPairs {
  int64_t pairs, capacity, workers;
  const int32_t* ids;
  const int64_t* id_starts;  // [pairs + 1]
  const int32_t* targets;
  const int64_t* target_starts;  // [pairs + 1]
  int64_t layer, head;           // -1: the last, the mean of all
  const int32_t* stop;           // becomes other than 0 when it is to end; or null
};

struct Pair {
  Source source;
  const int32_t* target;
  int64_t length;
  float* weights;  // [length + 1][items of the source]
};

// Pairs that several workers take from.
struct Work {
  const Engine& engine;
  Reading reading;
  std::vector<Pair> pairs;  // the longest target first
  int64_t together;         // so many of them in each worker
  const int32_t* stop;
  std::atomic<int64_t> next{0};
  std::atomic<bool> stopped{false};
};

// What was attended to, in the order of the source.
void tell(const Encoder& encoder, const float* weights, int64_t items, float* out) {
  if (encoder.backwards)
    std::reverse_copy(weights, weights + items, out);
  else
    std::copy_n(weights, items, out);
}

void check_stop(const Work& work) {
  if (work.stop && __atomic_load_n(work.stop, __ATOMIC_RELAXED)) throw Stopped("the search was ended");
}

// Some pairs together. Those that go on come first, so a row continues the row of the same number.
void weigh(Work& work, Decoding& decoding, size_t first, size_t end) {
  const Model& model = work.engine.model;
  std::vector<Source> sources;
  std::vector<int64_t> slots;
  for (size_t index = first; index < end; ++index) {
    sources.push_back(work.pairs[index].source);
    slots.push_back(static_cast<int64_t>(index - first));
  }
  Memory memory;
  model.encoder->encode(work.engine.machine, sources, &memory);
  decoding.start(memory, slots);
  std::vector<StepRow> rows;
  for (int64_t step = 0; step <= work.pairs[first].length; ++step) {
    check_stop(work);
    if (work.stopped.load(std::memory_order_relaxed)) return;
    rows.clear();
    for (size_t index = first; index < end && work.pairs[index].length >= step; ++index) {
      int32_t slot = static_cast<int32_t>(index - first);
      int32_t token = step ? work.pairs[index].target[step - 1] : START;
      rows.push_back(StepRow{slot, step ? slot : -1, 0, token, static_cast<int32_t>(step)});
    }
    decoding.step(rows);
    for (size_t row = 0; row < rows.size(); ++row) {
      const Pair& pair = work.pairs[first + row];
      tell(*model.encoder, decoding.weights(static_cast<int64_t>(row)), pair.source.length,
           pair.weights + step * pair.source.length);
    }
  }
  for (int64_t slot : slots) decoding.release(slot);
}

void weigh_all(Work& work) {
  std::unique_ptr<Decoding> decoding = work.engine.model.decoder->decoding(work.engine.machine, work.together, 1);
  decoding->weighs = true;
  decoding->reading = work.reading;
  int64_t total = static_cast<int64_t>(work.pairs.size());
  while (!work.stopped.load(std::memory_order_relaxed)) {
    int64_t first = work.next.fetch_add(work.together);
    if (first >= total) break;
    check_stop(work);  // before they are encoded
    weigh(work, *decoding, first, std::min(first + work.together, total));
  }
}

Pair pair_of(const Model& model, const AskedPairs& asked, int64_t index) {
  Pair pair{};
  pair.source = {asked.ids + asked.id_starts[index], asked.id_starts[index + 1] - asked.id_starts[index]};
  pair.target = asked.targets + asked.target_starts[index];
  pair.length = asked.target_starts[index + 1] - asked.target_starts[index];
  std::string told = "pair " + std::to_string(index);
  check_source(model, pair.source, told);
  if (pair.length < 0 || pair.length >= LONGEST)
    throw Refused(told + " has an output that is not of 0 to " + std::to_string(LONGEST - 1) + " tokens");
  if (model.decoder->longest && pair.length >= model.decoder->longest)
    throw Refused(told + ": a sequence of " + std::to_string(pair.length + 1) + " tokens is longer than the " +
                  std::to_string(model.decoder->longest) + " learned positions of this model");
  for (int64_t item = 0; item < pair.length; ++item)
    if (pair.target[item] < 0 || pair.target[item] >= model.decoder->vocabulary)
      throw Refused(told + " has a target id that the vocabulary does not have");
  return pair;
}

void check_reading(const std::vector<int64_t>& heads, const AskedPairs& asked) {
  int64_t layers = static_cast<int64_t>(heads.size());
  if (!layers) throw Refused("this model attends to no source");
  if (asked.layer < -1 || asked.layer >= layers)
    throw Refused("there is no layer " + std::to_string(asked.layer) + ": the decoder has " + std::to_string(layers));
  int64_t here = heads[asked.layer < 0 ? layers - 1 : asked.layer];
  if (asked.head < -1 || asked.head >= here)
    throw Refused("there is no head " + std::to_string(asked.head) + ": the layer has " + std::to_string(here));
}

}  // namespace

// weights: of each pair [tokens of the target + 1][items of the source], one behind the other; `room` floats of them.
REGARD_API int32_t regard_attention(const void* engine, const void* asked_, float* weights, int64_t room,
                                    char* message) {
  return guarded(message, [&] {
    const Engine& here = *static_cast<const Engine*>(engine);
    const AskedPairs& asked = *static_cast<const AskedPairs*>(asked_);
    check_sharing(asked.capacity, asked.workers);
    check_reading(here.model.decoder->attention_heads, asked);
    int64_t share_of_each = (asked.pairs + asked.workers - 1) / asked.workers;  // few pairs are for all workers, too
    int64_t together = std::max<int64_t>(1, std::min(asked.capacity, share_of_each));
    Work work{here, Reading{asked.layer, asked.head}, {}, together, asked.stop};
    int64_t told = 0;
    for (int64_t index = 0; index < asked.pairs; ++index) {
      Pair pair = pair_of(here.model, asked, index);
      pair.weights = weights + told;
      int64_t size = (pair.length + 1) * pair.source.length;
      if (size > room - told) throw Refused("there is no room for the weights of pair " + std::to_string(index));
      told += size;
      work.pairs.push_back(pair);
    }
    std::stable_sort(work.pairs.begin(), work.pairs.end(),
                     [](const Pair& one, const Pair& other) { return one.length > other.length; });
    int64_t workers = std::min(asked.workers, (asked.pairs + together - 1) / together);
    share(std::max<int64_t>(1, workers), work.stopped, [&] { weigh_all(work); });
  });
}
