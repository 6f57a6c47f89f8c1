// Samples: every row draws its own next token, until it draws the end (regard/search/sampling.py).
//
// Samples that have said the same are one row: they are read and weighed once, and each draws by its own number.
#include <algorithm>
#include <cmath>

#include "chances.h"
#include "drawing.h"
#include "searching.h"

namespace regard {
namespace {

constexpr int64_t USUAL = 5;        // rows of a sentence: so many of a beam are what a capacity is chosen for
constexpr int64_t PROJECTED = 256;  // rows whose logits are held at the same time

// Sentences that run together: the more samples each has, the fewer.
int64_t sentences(const Work& work) { return std::max<int64_t>(1, work.capacity * USUAL / work.options.best); }

struct Drawn {
  int32_t token;
  int32_t sample;
  double value;  // log-probability of the whole
};

class Samples : public Searching {
 public:
  explicit Samples(Work& work)
      : Searching(work, sentences(work), work.options.best),
        drawing_(work.machine.kernels, *work.options.sampling, work.model.decoder->vocabulary),
        slots_(sentences(work)),
        seed_(followed(0, work.options.sampling->seed)) {}

 private:
  // Whose the rows of a sentence are.
  struct Slot {
    std::vector<std::vector<int32_t>> samples;  // of each row
    std::vector<int32_t> done;                  // of each hypothesis
  };

  void project(const Rows& hidden) override {
    drawn_.resize(step_rows_.size());
    for (std::vector<Drawn>& row : drawn_) row.clear();
    int64_t index = 0, held = 0;
    float* logits_of = nullptr;
    for (const Sentence& sentence : running_) {
      Slot& slot = slots_[sentence.slot];
      if (!sentence.steps) begin(&slot);
      for (size_t place = 0; place < sentence.rows.size(); ++place, ++index) {
        if (index == held) {
          held += std::min(PROJECTED, hidden.count - index);
          logits_of = logits(part(hidden, index, held - index));
        }
        float* row = logits_of + index % PROJECTED * logit_stride_;
        draw(sentence, sentence.rows[place], slot.samples[place], row, &drawn_[index]);
      }
    }
  }

  void begin(Slot* slot) {
    slot->done.clear();
    slot->samples.assign(1, {});
    for (int64_t sample = 0; sample < options_.best; ++sample)
      slot->samples[0].push_back(static_cast<int32_t>(sample));
  }

  // One token for each sample of a row, sorted; none where nothing may come.
  void draw(const Sentence& sentence, const Row& row, const std::vector<int32_t>& samples, float* logits,
            std::vector<Drawn>* out) {
    survey(logits);
    double total = normaliser(surveyed_);
    if (forced(sentence)) {
      int32_t token = next_forced(sentence);
      double value = row.score + said(logits[token], total);
      for (int32_t sample : samples) out->push_back(Drawn{token, sample, value});
      return;
    }
    if (constraint(sentence)) {
      permit(sentence, row, &permitted_);
      keep_permitted(logits);
    }
    forbid(forbidden(sentence, row, &forbidden_), logits);
    if (!drawing_.take(logits, total, largest_)) return;
    uint64_t request = followed(seed_, work_.requests[sentence.request].number);
    for (int32_t sample : samples) {
      uint64_t key = followed(followed(request, static_cast<uint64_t>(sample)), static_cast<uint64_t>(sentence.steps));
      int32_t token = drawing_.draw(uniform(key));
      out->push_back(Drawn{token, sample, row.score + said(logits[token], total)});
    }
    std::stable_sort(out->begin(), out->end(),
                     [](const Drawn& one, const Drawn& other) { return one.token < other.token; });
  }

  // Takes away what a constraint does not permit.
  void keep_permitted(float* logits) {
    for (int64_t token = 0; token < work_.model.decoder->vocabulary; ++token)
      if (!permitted_.may_come(static_cast<int32_t>(token))) logits[token] = -INFINITY;
    for (int64_t panel = 0; panel < panels_; ++panel)
      largest_[panel] = *std::max_element(logits + panel * PANEL, logits + (panel + 1) * PANEL);
  }

  void forbid(const std::vector<int32_t>& tokens, float* logits) {
    for (int32_t token : tokens) logits[token] = -INFINITY;
    for (int32_t token : tokens) {
      const float* panel = logits + token / PANEL * PANEL;
      largest_[token / PANEL] = *std::max_element(panel, panel + PANEL);
    }
  }

  void advance(Sentence& sentence, size_t first) override {
    Slot& slot = slots_[sentence.slot];
    std::vector<Row> rows;
    std::vector<std::vector<int32_t>> samples;
    for (size_t place = 0; place < sentence.rows.size(); ++place) {
      const Row& from = sentence.rows[place];
      int32_t before = -1;
      for (const Drawn& one : drawn_[first + place]) {
        if (!(one.value > -INFINITY)) continue;
        double last = one.value - from.score;
        if (one.token == END) {
          add(sentence, from, one.value, &last, one.sample);
          continue;
        }
        if (one.token != before) {
          int32_t state = state_after(sentence, from, one.token);
          if (state < 0) break;  // it was forced, as all of this row are
          sentence.nodes.push_back(Node{from.node, one.token, last});
          rows.push_back(Row{static_cast<int32_t>(sentence.nodes.size()) - 1, one.value,
                             static_cast<int32_t>(first + place), state});
          samples.emplace_back();
          before = one.token;
        }
        samples.back().push_back(one.sample);
      }
    }
    sentence.rows.swap(rows);
    slot.samples.swap(samples);
    ++sentence.steps;
  }

  void add(Sentence& sentence, const Row& row, double value, const double* last, int32_t sample) {
    sentence.done.push_back(told(sentence, row, value, last));
    sentence.done.back().score = value;
    slots_[sentence.slot].done.push_back(sample);
  }

  bool is_done(const Sentence& sentence) const override {
    return sentence.rows.empty() || sentence.steps >= sentence.limit;
  }

  // Those that the limit cuts off belong to the outcome, too; it stands in the order of the samples.
  void finish(Sentence& sentence) override {
    Slot& slot = slots_[sentence.slot];
    for (size_t place = 0; place < sentence.rows.size(); ++place) {
      if (!satisfies(sentence, sentence.rows[place])) continue;
      for (int32_t sample : slot.samples[place])
        add(sentence, sentence.rows[place], sentence.rows[place].score, nullptr, sample);
    }
    std::vector<int32_t> order(slot.done.size());
    for (size_t index = 0; index < order.size(); ++index) order[index] = static_cast<int32_t>(index);
    std::sort(order.begin(), order.end(), [&](int32_t one, int32_t other) { return slot.done[one] < slot.done[other]; });
    Outcome sorted;
    for (int32_t index : order) sorted.push_back(std::move(sentence.done[index]));
    sentence.done = std::move(sorted);
  }

  Drawing drawing_;
  std::vector<Slot> slots_;
  uint64_t seed_;  // the key of everything that is drawn
  std::vector<std::vector<Drawn>> drawn_;  // of each row
  std::vector<int32_t> forbidden_;
  Permitted permitted_;
};

}  // namespace

void draw_samples(Work& work) { Samples(work).run(); }

}  // namespace regard
