// Decoding step by step, for searches that are made elsewhere: what was read goes in, logits come out.
#include <algorithm>
#include <memory>
#include <vector>

#include "guard.h"
#include "requests.h"

namespace {

using namespace regard;

constexpr int64_t MOST_SLOTS = 1 << 16, MOST_PLACES = 1 << 16;

struct Session {
  const Engine& engine;
  int64_t beam;
  std::unique_ptr<Decoding> decoding;
  std::vector<int64_t> items;  // of the source in each slot; -1: it is free
  std::vector<int64_t> free;
  std::vector<StepRow> last;  // rows of the step before

  Session(const Engine& engine, int64_t slots, int64_t beam)
      : engine(engine),
        beam(beam),
        decoding(engine.model.decoder->decoding(engine.machine, slots, beam)),
        items(slots, -1) {
    for (int64_t slot = slots; slot--;) free.push_back(slot);
  }

  void start(const std::vector<Source>& sources, int32_t* slots) {
    if (sources.size() > free.size()) throw Refused("there are more sources than free slots");
    std::vector<int64_t> taken(free.end() - sources.size(), free.end());
    Memory memory;
    if (engine.model.encoder) engine.model.encoder->encode(engine.machine, sources, &memory);
    decoding->start(memory, taken);
    free.resize(free.size() - sources.size());
    for (size_t index = 0; index < taken.size(); ++index) {
      items[taken[index]] = sources[index].length;
      slots[index] = static_cast<int32_t>(taken[index]);
    }
  }

  void release(int64_t slot) {
    if (slot < 0 || slot >= static_cast<int64_t>(items.size()) || items[slot] < 0) throw Refused("no such slot is taken");
    decoding->release(slot);
    items[slot] = -1;
    free.push_back(slot);
    for (StepRow& row : last)
      if (row.slot == slot) row.slot = -1;  // nothing goes on from a sentence that has left
  }

  void check(const StepRow& row) const {
    bool known = row.slot >= 0 && row.slot < static_cast<int64_t>(items.size()) && items[row.slot] >= 0;
    bool first = row.from == -1 && row.position == 0;
    bool next = row.from >= 0 && row.from < static_cast<int64_t>(last.size()) && last[row.from].slot == row.slot &&
                last[row.from].position + 1 == row.position;
    int64_t longest = engine.model.decoder->longest ? engine.model.decoder->longest : MOST_PLACES;
    bool read = row.token >= 0 && row.token < engine.model.decoder->vocabulary && row.position < longest;
    if (!known || !(first || next) || !read || row.place < 0 || row.place >= beam) throw Refused("a row of a step is not one that there can be");
  }

  // Rows of a sentence stand together, each in a place of its own.
  void check(const std::vector<StepRow>& rows) const {
    std::vector<char> met(items.size()), held;
    for (size_t index = 0; index < rows.size(); ++index) {
      const StepRow& row = rows[index];
      check(row);
      if (!index || rows[index - 1].slot != row.slot) {
        if (met[row.slot]) throw Refused("rows of a sentence do not stand together in a step");
        met[row.slot] = 1;
        held.assign(beam, 0);
      }
      if (held[row.place]) throw Refused("two rows of a step have the same place");
      held[row.place] = 1;
    }
  }

  void step(const std::vector<StepRow>& rows, float* logits, float* weights, int64_t stride) {
    check(rows);
    last.clear();  // nothing goes on from a step that failed
    decoding->weighs = weights != nullptr;
    Rows hidden = decoding->step(rows);
    engine.model.decoder->output.run(engine.machine, hidden, logits);
    last = rows;
    if (!weights) return;
    for (int64_t row = 0; row < static_cast<int64_t>(rows.size()); ++row) {
      const float* from = decoding->weights(row);
      if (!from) throw Refused("this model attends to no source");
      if (items[rows[row].slot] > stride) throw Refused("there is no room for the weights of a row");
      std::copy_n(from, items[rows[row].slot], weights + row * stride);
    }
  }
};

}  // namespace

// `beam` is the most rows of one sentence.
REGARD_API int32_t regard_session_open(const void* engine, int64_t slots, int64_t beam, void** session, char* message) {
  return guarded(message, [&] {
    if (slots < 1 || slots > MOST_SLOTS || beam < 1 || beam > MOST_PLACES) throw Refused("a session has an impossible size");
    *session = new Session(*static_cast<const Engine*>(engine), slots, beam);
  });
}

REGARD_API void regard_session_close(void* session) { delete static_cast<Session*>(session); }

REGARD_API int32_t regard_session_start(void* session, int64_t count, const int32_t* ids, const int64_t* starts,
                                        int32_t* slots, char* message) {
  return guarded(message, [&] {
    Session& here = *static_cast<Session*>(session);
    std::vector<Source> sources;
    for (int64_t index = 0; index < count; ++index) {
      sources.push_back({ids + starts[index], starts[index + 1] - starts[index]});
      check_source(here.engine.model, sources.back(), "request " + std::to_string(index));
    }
    here.start(sources, slots);
  });
}

REGARD_API int32_t regard_session_release(void* session, int64_t slot, char* message) {
  return guarded(message, [&] { static_cast<Session*>(session)->release(slot); });
}

// rows: of each its slot, the row of the step before that it continues (-1: none), its place, token and position; rows of
// a sentence stand together. logits: [rows][vocabulary]; weights: [rows][stride], or null.
REGARD_API int32_t regard_session_step(void* session, int64_t count, const int32_t* rows, float* logits, float* weights,
                                       int64_t stride, char* message) {
  return guarded(message, [&] {
    std::vector<StepRow> all;
    for (int64_t row = 0; row < count; ++row, rows += 5)
      all.push_back(StepRow{rows[0], rows[1], rows[2], rows[3], rows[4]});
    static_cast<Session*>(session)->step(all, logits, weights, stride);
  });
}
