#include <algorithm>
#include <cmath>

#include "searching.h"

namespace regard {
namespace {

constexpr float LEAST = 1e-6f;  // no item counts as less covered, as in regard/models/coverage.py

struct Continuation {
  double value;
  int32_t row;
  int32_t token;
};

class Beams : public Searching {
 public:
  explicit Beams(Work& work) : Searching(work, work.capacity, work.options.beam), covers_(options_.coverage_penalty > 0) {
    if (!covers_) return;
    decoding_->weighs = true;
    decoding_->reading = Reading();
    covered_.resize(work.capacity);
  }

 private:
  // What comes next in each row: its best tokens without those that may not come, or the one that must.
  void project(const Rows& hidden) override {
    projected_.assign(step_rows_.size(), Projected());
    forbidden_.clear();
    forbidden_.resize(step_rows_.size());
    size_t index = 0;
    for (const Sentence& sentence : running_)
      for (size_t place = 0; place < sentence.rows.size(); ++place, ++index) {
        if (forced(sentence)) {
          projected_[index].wanted = next_forced(sentence);
          continue;
        }
        const std::vector<int32_t>& out = forbidden(sentence, sentence.rows[place], &forbidden_[index]);
        projected_[index].forbidden = out.data();
        projected_[index].forbidden_count = static_cast<int32_t>(out.size());
      }
    work_.machine.kernels.project(hidden, work_.model.decoder->output.weights, static_cast<int32_t>(options_.beam),
                                  projected_.data());
  }

  void choose(const Sentence& sentence, size_t first) {
    chosen_.clear();
    for (size_t place = 0; place < sentence.rows.size(); ++place) {
      const Projected& projected = projected_[first + place];
      double total = normaliser(projected), score = sentence.rows[place].score;
      int32_t row = static_cast<int32_t>(place);
      if (projected.wanted >= 0) {
        chosen_.push_back({score + said(projected.wanted_logit, total), row, projected.wanted});
        continue;
      }
      for (int32_t index = 0; index < projected.found; ++index) {
        const Candidate& candidate = projected.best[index];
        chosen_.push_back({score + said(candidate.value, total), row, candidate.token});
      }
    }
    if (forced(sentence)) return;
    std::stable_sort(chosen_.begin(), chosen_.end(),
                     [](const Continuation& one, const Continuation& other) { return one.value > other.value; });
    if (static_cast<int64_t>(chosen_.size()) > options_.beam) chosen_.resize(options_.beam);
  }

  void advance(Sentence& sentence, size_t first) override {
    choose(sentence, first);
    if (covers_) cover(sentence, first);
    std::vector<Row> rows;
    for (const Continuation& one : chosen_) {
      if (!(one.value > -INFINITY)) continue;
      const Row& from = sentence.rows[one.row];
      double last = one.value - from.score;
      if (one.token == END) {
        add(sentence, one.row, one.value, &last);
        continue;
      }
      sentence.nodes.push_back(Node{from.node, one.token, last});
      rows.push_back(Row{static_cast<int32_t>(sentence.nodes.size()) - 1, one.value,
                         static_cast<int32_t>(first) + one.row});
    }
    if (covers_) carry(sentence, first, rows);
    sentence.rows.swap(rows);
    ++sentence.steps;
    if (options_.early) return;
    while (!sentence.rows.empty() && !is_open(sentence, sentence.rows.back().score)) sentence.rows.pop_back();
  }

  int64_t items(const Sentence& sentence) const { return work_.requests[sentence.request].source.length; }

  // What rows have attended to at this step is added to what they had attended to.
  void cover(const Sentence& sentence, size_t first) {
    int64_t width = items(sentence);
    std::vector<float>& covered = covered_[sentence.slot];
    if (!sentence.steps) covered.assign(width, 0.0f);
    for (size_t place = 0; place < sentence.rows.size(); ++place) {
      const float* weights = decoding_->weights(static_cast<int64_t>(first + place));
      for (int64_t item = 0; item < width; ++item) covered[place * width + item] += weights[item];
    }
  }

  // Rows that go on take along what the rows had that they come from.
  void carry(const Sentence& sentence, size_t first, const std::vector<Row>& rows) {
    int64_t width = items(sentence);
    std::vector<float>& covered = covered_[sentence.slot];
    carried_.resize(rows.size() * width);
    for (size_t place = 0; place < rows.size(); ++place)
      std::copy_n(covered.begin() + (rows[place].from - static_cast<int64_t>(first)) * width, width,
                  carried_.begin() + place * width);
    covered.swap(carried_);
  }

  // log-coverage = sum over items of log min(what was attended to, 1); Wu et al. 2016, equation 14.
  double coverage(const Sentence& sentence, int64_t place) const {
    int64_t width = items(sentence);
    const float* covered = covered_[sentence.slot].data() + place * width;
    double total = 0;
    for (int64_t item = 0; item < width; ++item) total += std::log(std::min(std::max(covered[item], LEAST), 1.0f));
    return total;
  }

  // A row becomes a hypothesis; `last` is the log-probability of its end, null for one that was cut off.
  void add(Sentence& sentence, int64_t place, double value, const double* last) {
    Hypothesis hypothesis = told(sentence, sentence.rows[place], value, last);
    hypothesis.score = options_.score(value, static_cast<int64_t>(hypothesis.steps.size()));
    if (covers_) {
      hypothesis.coverage = options_.coverage_penalty * coverage(sentence, place);
      hypothesis.score += hypothesis.coverage;
    }
    auto behind = std::find_if(sentence.done.begin(), sentence.done.end(),
                               [&](const Hypothesis& one) { return one.score < hypothesis.score; });
    sentence.done.insert(behind, std::move(hypothesis));
    if (static_cast<int64_t>(sentence.done.size()) > options_.best) sentence.done.pop_back();
  }

  // Whether a row may still change the outcome. No continuation of it scores above log p / lp(limit), as coverage adds
  // at most 0, and few above what it would have if it ended at once for sure.
  bool is_open(const Sentence& sentence, double value) const {
    if (static_cast<int64_t>(sentence.done.size()) < options_.best) return true;
    int64_t length = options_.early ? std::min(sentence.steps + 1, sentence.limit) : sentence.limit;
    return options_.score(value, length) > sentence.done.back().score;
  }

  bool is_done(const Sentence& sentence) const override {
    if (sentence.rows.empty() || sentence.steps >= sentence.limit) return true;
    double best = -INFINITY;
    for (const Row& row : sentence.rows) best = std::max(best, row.score);
    return !is_open(sentence, best);
  }

  void finish(Sentence& sentence) override {
    if (!sentence.done.empty()) return;
    for (size_t place = 0; place < sentence.rows.size(); ++place)
      add(sentence, static_cast<int64_t>(place), sentence.rows[place].score, nullptr);
  }

  bool covers_;
  std::vector<std::vector<float>> covered_;  // by slot: of each row [items of the source]
  std::vector<float> carried_;
  std::vector<Projected> projected_;
  std::vector<std::vector<int32_t>> forbidden_;
  std::vector<Continuation> chosen_;
};

}  // namespace

double Options::score(double log_probability, int64_t length) const {
  if (length_penalty == 0) return log_probability;
  double base = gnmt ? (5.0 + static_cast<double>(length)) / 6.0 : static_cast<double>(length);
  return log_probability / std::pow(base, length_penalty);
}

void search_beams(Work& work) { Beams(work).run(); }

}  // namespace regard
