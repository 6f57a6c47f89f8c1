#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "searching.h"

namespace regard {
namespace {

constexpr size_t HELD = 256;    // rows whose logits are held at the same time, and those of one sentence more
constexpr float LEAST = 1e-6f;  // no item counts as less covered, as in regard/models/coverage.py

struct Continuation {
  double value;
  int32_t row;
  int32_t token;
};

// The best of what is offered: largest first, of equals the lower token first.
struct Best {
  Candidate* out;
  int32_t most;
  int32_t count = 0;

  // Whether one with this value may be among them.
  bool takes(float value) const { return value > -INFINITY && (count < most || value >= out[most - 1].value); }

  void offer(float value, int32_t token) {
    auto before = [&](const Candidate& other) {
      return value != other.value ? value > other.value : token < other.token;
    };
    if (!takes(value) || (count == most && !before(out[most - 1]))) return;
    int32_t place = count < most ? count++ : most - 1;
    for (; place > 0 && before(out[place - 1]); --place) out[place] = out[place - 1];
    out[place] = Candidate{value, token};
  }
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
    permitted_.resize(step_rows_.size());
    helpful_.resize(step_rows_.size());
    size_t first = 0;
    for (size_t sentence = 0, end = 0; sentence < running_.size(); sentence = end) {
      bool under = permits(running_[sentence]);
      size_t rows = 0;  // of sentences that stand together, all of them under a constraint or none
      for (; end < running_.size() && permits(running_[end]) == under && (!under || rows < HELD); ++end)
        rows += running_[end].rows.size();
      under ? project_permitted(hidden, sentence, end, first, rows) : project_freely(hidden, sentence, end, first, rows);
      first += rows;
    }
  }

  // Whether a constraint says what comes next.
  bool permits(const Sentence& sentence) const { return constraint(sentence) && !forced(sentence); }

  void prepare(const Sentence& sentence, const Row& row, size_t index) {
    Projected& projected = projected_[index];
    if (forced(sentence)) {
      projected.wanted = next_forced(sentence);
      return;
    }
    const std::vector<int32_t>& out = forbidden(sentence, row, &forbidden_[index]);
    projected.forbidden = out.data();
    projected.forbidden_count = static_cast<int32_t>(out.size());
  }

  // Rows of sentences without a constraint, from row `first` on: their logits need not be held.
  void project_freely(const Rows& hidden, size_t sentence, size_t end, size_t first, size_t rows) {
    size_t index = first;
    for (; sentence < end; ++sentence)
      for (const Row& row : running_[sentence].rows) prepare(running_[sentence], row, index++);
    work_.machine.kernels.project(part(hidden, static_cast<int64_t>(first), static_cast<int64_t>(rows)),
                                  work_.model.decoder->output.weights, static_cast<int32_t>(options_.beam),
                                  projected_.data() + first);
  }

  // Rows of sentences with one: the best of what they may say, and of what brings them nearer to what is demanded.
  void project_permitted(const Rows& hidden, size_t sentence, size_t end, size_t first, size_t rows) {
    float* of_row = logits(part(hidden, static_cast<int64_t>(first), static_cast<int64_t>(rows)));
    size_t index = first;
    for (; sentence < end; ++sentence)
      for (const Row& row : running_[sentence].rows) {
        find_permitted(running_[sentence], row, of_row, index++);
        of_row += logit_stride_;
      }
  }

  void find_permitted(const Sentence& sentence, const Row& row, float* logits, size_t index) {
    survey(logits);
    for (int32_t token : forbidden(sentence, row, &forbidden_[index])) logits[token] = -INFINITY;
    Permitted& permitted = permitted_[index];
    permit(sentence, row, &permitted);
    Projected& projected = projected_[index];
    projected.largest = surveyed_.largest;
    std::copy(std::begin(surveyed_.sums), std::end(surveyed_.sums), projected.sums);
    projected.found = best(permitted, logits, projected.best);
    helpful_[index].resize(LONGEST_K);
    helpful_[index].resize(deals(sentence) ? best_helpful(permitted, logits, helpful_[index].data()) : 0);
  }

  int32_t best(const Permitted& permitted, const float* logits, Candidate* out) const {
    Best found{out, static_cast<int32_t>(options_.beam)};
    if (permitted.state->may_end) found.offer(logits[END], END);
    if (permitted.state->listed()) {
      for (int32_t token : permitted.state->tokens())
        if (permitted.may_come(token)) found.offer(logits[token], token);
      return found.count;
    }
    for (int64_t panel = 0; panel < panels_; ++panel) {
      if (!found.takes(largest_[panel])) continue;
      int64_t end = std::min((panel + 1) * PANEL, work_.model.decoder->vocabulary);
      for (int32_t token = static_cast<int32_t>(panel * PANEL); token < end; ++token)
        if (token != END && found.takes(logits[token]) && permitted.may_come(token)) found.offer(logits[token], token);
    }
    return found.count;
  }

  int32_t best_helpful(const Permitted& permitted, const float* logits, Candidate* out) const {
    Best found{out, static_cast<int32_t>(options_.beam)};
    for (int32_t token : permitted.state->helpful)
      if (permitted.may_come(token)) found.offer(logits[token], token);
    return found.count;
  }

  // Whether the places of the beam are dealt to banks.
  bool deals(const Sentence& sentence) const {
    return options_.beam > 1 && !forced(sentence) && constraint(sentence) && constraint(sentence)->goal > 0;
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
    if (deals(sentence)) return deal(sentence, first);
    if (static_cast<int64_t>(chosen_.size()) > options_.beam) chosen_.resize(options_.beam);
  }

  // Larger values first; of equals the lower row, and of one row the lower token.
  static bool before(const Continuation& one, const Continuation& other) {
    if (one.value != other.value) return one.value > other.value;
    return std::make_pair(one.row, one.token) < std::make_pair(other.row, other.token);
  }

  // The places of a beam for continuations that have come to different parts of what is demanded, as in
  // regard/search/beam.py: candidates are the best of all, the best of each row, and the best helpful ones of each. The
  // best of all is taken first; then the banks take turns, the fullest first.
  void deal(const Sentence& sentence, size_t first) {
    std::vector<Continuation> candidates;
    std::vector<bool> met(sentence.rows.size());
    for (size_t index = 0; index < chosen_.size(); ++index) {
      const Continuation& one = chosen_[index];
      if (static_cast<int64_t>(index) < options_.beam || !met[one.row]) candidates.push_back(one);
      met[one.row] = true;
    }
    for (size_t place = 0; place < sentence.rows.size(); ++place) {
      double total = normaliser(projected_[first + place]), score = sentence.rows[place].score;
      for (const Candidate& one : helpful_[first + place])
        candidates.push_back({score + said(one.value, total), static_cast<int32_t>(place), one.token});
    }
    std::sort(candidates.begin(), candidates.end(), before);
    auto same = [](const Continuation& one, const Continuation& other) {
      return one.row == other.row && one.token == other.token;
    };
    candidates.erase(std::unique(candidates.begin(), candidates.end(), same), candidates.end());
    while (!candidates.empty() && !(candidates.back().value > -INFINITY)) candidates.pop_back();
    chosen_.clear();
    if (candidates.empty()) return;
    chosen_.push_back(candidates[0]);
    std::map<int64_t, std::vector<Continuation>, std::greater<int64_t>> banks;
    for (size_t index = 1; index < candidates.size(); ++index)
      banks[bank(sentence, first, candidates[index])].push_back(candidates[index]);
    size_t wanted = std::min<size_t>(options_.beam, candidates.size());
    for (size_t turn = 0; chosen_.size() < wanted; ++turn)
      for (const auto& one : banks)
        if (turn < one.second.size() && chosen_.size() < wanted) chosen_.push_back(one.second[turn]);
    std::sort(chosen_.begin(), chosen_.end(), before);
  }

  // Which bank a continuation belongs to: the more is there of what is demanded, the higher.
  int64_t bank(const Sentence& sentence, size_t first, const Continuation& one) const {
    int64_t goal = constraint(sentence)->goal;
    const ConstraintState& state = *permitted_[first + one.row].state;
    int64_t progress = one.token == END ? goal : state.progresses[state.way(one.token)];
    return progress * options_.beam / goal;
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
      int32_t state = permits(sentence) ? permitted_[first + one.row].state->after(one.token)
                                        : state_after(sentence, from, one.token);
      if (state < 0) continue;  // it was forced
      sentence.nodes.push_back(Node{from.node, one.token, last});
      rows.push_back(Row{static_cast<int32_t>(sentence.nodes.size()) - 1, one.value,
                         static_cast<int32_t>(first) + one.row, state});
    }
    if (covers_) carry(sentence, first, rows);
    sentence.rows.swap(rows);
    ++sentence.steps;
    if (options_.early || constraint(sentence)) return;
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
      if (satisfies(sentence, sentence.rows[place]))
        add(sentence, static_cast<int64_t>(place), sentence.rows[place].score, nullptr);
  }

  bool covers_;
  std::vector<std::vector<float>> covered_;  // by slot: of each row [items of the source]
  std::vector<float> carried_;
  std::vector<Projected> projected_;
  std::vector<std::vector<int32_t>> forbidden_;
  std::vector<Permitted> permitted_;              // of rows with a constraint
  std::vector<std::vector<Candidate>> helpful_;
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
