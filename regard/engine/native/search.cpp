#include "search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

namespace regard {
namespace {

constexpr int64_t SMALL = 512;  // a search that reads no more rows leaves its room to the next

// One token of a row, linked to the one before it.
struct Node {
  int32_t before;
  int32_t token;
  double said;
};

struct Row {
  int32_t node;     // -1: nothing but START
  double score;     // log-probability so far
  int32_t from;     // its place in the rows of the step before; -1: the beginning
};

struct Sentence {
  int64_t request, slot;
  int64_t limit;
  int64_t steps = 0;
  std::vector<Row> rows;
  std::vector<Node> nodes;
  Outcome done;
};

struct Continuation {
  double value;
  int32_t row;
  int32_t token;
};

class Searching {
 public:
  explicit Searching(Work& work)
      : work_(work),
        options_(work.options),
        decoding_(work.decodings.take(work.capacity, work.options.beam)) {
    if (!decoding_) decoding_ = work.model.decoder->decoding(work.machine, work.capacity, work.options.beam);
    for (int64_t slot = work.capacity; slot--;) free_.push_back(slot);
    never_ = {PAD, START};
    if (!options_.unknown) never_.push_back(UNKNOWN);
  }

  void run() {
    while (!work_.stopped.load(std::memory_order_relaxed)) {
      if (work_.stop && __atomic_load_n(work_.stop, __ATOMIC_RELAXED)) throw Stopped("the search was ended");
      if (static_cast<int64_t>(running_.size()) <= work_.capacity * 3 / 4) admit();
      if (running_.empty()) break;
      step();
      if (work_.clock) work_.clock->push_back(seconds());
    }
    if (running_.empty() && read_ <= SMALL) work_.decodings.give(std::move(decoding_), work_.capacity, options_.beam);
  }

 private:
  // Takes requests and begins them together; near the end each worker takes a small share, so that all end together.
  void admit() {
    int64_t total = static_cast<int64_t>(work_.requests.size());
    int64_t left = total - work_.next.load(std::memory_order_relaxed);
    if (left <= 0) return;
    int64_t share = std::max<int64_t>(1, (left + 2 * work_.workers - 1) / (2 * work_.workers));
    int64_t wanted = std::min<int64_t>(work_.capacity - static_cast<int64_t>(running_.size()), share);
    int64_t first = work_.next.fetch_add(wanted);
    int64_t end = std::min(first + wanted, total);
    if (first >= end) return;
    std::vector<Source> sources;
    std::vector<int64_t> slots;
    for (int64_t index = first; index < end; ++index) {
      const Request& request = work_.requests[index];
      sources.push_back(request.source);
      Sentence sentence;
      sentence.request = index;
      sentence.slot = free_.back();
      free_.pop_back();
      sentence.limit = request.limit;
      sentence.rows.push_back(Row{-1, 0.0, -1});
      slots.push_back(sentence.slot);
      running_.push_back(std::move(sentence));
    }
    Memory memory;
    if (work_.model.encoder) work_.model.encoder->encode(work_.machine, sources, &memory);
    decoding_->start(memory, slots);
  }

  void step() {
    step_rows_.clear();
    for (const Sentence& sentence : running_)
      for (size_t place = 0; place < sentence.rows.size(); ++place) {
        const Row& row = sentence.rows[place];
        int32_t token = row.node < 0 ? START : sentence.nodes[row.node].token;
        step_rows_.push_back(StepRow{static_cast<int32_t>(sentence.slot), row.from, static_cast<int32_t>(place), token,
                                     static_cast<int32_t>(sentence.steps)});
      }
    read_ += static_cast<int64_t>(step_rows_.size());
    Rows hidden = decoding_->step(step_rows_);
    project(hidden);
    size_t first = 0, kept = 0;
    for (size_t index = 0; index < running_.size(); ++index) {
      Sentence& sentence = running_[index];
      size_t rows = sentence.rows.size();
      advance(sentence, first);
      first += rows;
      if (is_done(sentence)) {
        finish(sentence);
        continue;
      }
      if (kept != index) running_[kept] = std::move(sentence);
      ++kept;
    }
    running_.resize(kept);
  }

  bool forced(const Sentence& sentence) const {
    return sentence.steps < work_.requests[sentence.request].prefix_length;
  }

  // What comes next in each row: its best tokens without those that may not come, or the one that must.
  void project(const Rows& hidden) {
    projected_.assign(step_rows_.size(), Projected());
    forbidden_.clear();
    forbidden_.resize(step_rows_.size());
    size_t index = 0;
    for (const Sentence& sentence : running_)
      for (size_t place = 0; place < sentence.rows.size(); ++place, ++index) {
        if (forced(sentence)) {
          projected_[index].wanted = work_.requests[sentence.request].prefix[sentence.steps];
          continue;
        }
        const std::vector<int32_t>* forbidden = &never_;
        if (sentence.steps + 1 < options_.min_length || options_.block_ngrams) {
          forbidden_[index] = never_;
          if (sentence.steps + 1 < options_.min_length) forbidden_[index].push_back(END);
          if (options_.block_ngrams) repeated(sentence, sentence.rows[place], &forbidden_[index]);
          forbidden = &forbidden_[index];
        }
        projected_[index].forbidden = forbidden->data();
        projected_[index].forbidden_count = static_cast<int32_t>(forbidden->size());
      }
    work_.machine.kernels.project(hidden, work_.model.decoder->output.weights, static_cast<int32_t>(options_.beam),
                                  projected_.data());
  }

  std::vector<int32_t> history(const Sentence& sentence, int32_t node) const {
    std::vector<int32_t> tokens;
    for (; node >= 0; node = sentence.nodes[node].before) tokens.push_back(sentence.nodes[node].token);
    std::reverse(tokens.begin(), tokens.end());
    return tokens;
  }

  // The tokens that would make the last n tokens something that was said before.
  void repeated(const Sentence& sentence, const Row& row, std::vector<int32_t>* out) const {
    std::vector<int32_t> said = history(sentence, row.node);
    int64_t length = options_.block_ngrams, count = static_cast<int64_t>(said.size());
    for (int64_t end = length - 1; end < count; ++end)
      if (std::equal(said.begin() + (end - length + 1), said.begin() + end, said.end() - (length - 1)))
        out->push_back(said[end]);
  }

  // log p = logit - log-sum-exp, in single precision as a model's own log-softmax gives it.
  static double said(float logit, double normaliser) {
    return static_cast<double>(static_cast<float>(static_cast<double>(logit) - normaliser));
  }

  static double normaliser(const Projected& projected) {
    double total = 0;
    for (float part : projected.sums) total += static_cast<double>(part);
    double value = static_cast<double>(projected.largest) + std::log(total);
    if (std::isnan(value))
      throw Refused("the model says NaN instead of probabilities; its weights are damaged or diverged");
    return value;
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

  // Continues one sentence whose rows begin at `first`; ends go to its outcome.
  void advance(Sentence& sentence, size_t first) {
    choose(sentence, first);
    std::vector<Row> rows;
    for (const Continuation& one : chosen_) {
      if (!(one.value > -INFINITY)) continue;
      const Row& from = sentence.rows[one.row];
      double last = one.value - from.score;
      if (one.token == END) {
        add(sentence, from, one.value, &last);
        continue;
      }
      sentence.nodes.push_back(Node{from.node, one.token, last});
      rows.push_back(Row{static_cast<int32_t>(sentence.nodes.size()) - 1, one.value,
                         static_cast<int32_t>(first) + one.row});
    }
    sentence.rows.swap(rows);
    ++sentence.steps;
    if (options_.early) return;
    while (!sentence.rows.empty() && !is_open(sentence, sentence.rows.back().score)) sentence.rows.pop_back();
  }

  // A row becomes a hypothesis; `last` is the log-probability of its end, null for one that was cut off.
  void add(Sentence& sentence, const Row& row, double value, const double* last) {
    Hypothesis hypothesis;
    hypothesis.tokens = history(sentence, row.node);
    for (int32_t node = row.node; node >= 0; node = sentence.nodes[node].before)
      hypothesis.steps.push_back(sentence.nodes[node].said);
    std::reverse(hypothesis.steps.begin(), hypothesis.steps.end());
    if (last) hypothesis.steps.push_back(*last);
    hypothesis.log_probability = value;
    hypothesis.score = options_.score(value, static_cast<int64_t>(hypothesis.steps.size()));
    hypothesis.complete = last != nullptr;
    auto place = std::find_if(sentence.done.begin(), sentence.done.end(),
                              [&](const Hypothesis& one) { return one.score < hypothesis.score; });
    sentence.done.insert(place, std::move(hypothesis));
    if (static_cast<int64_t>(sentence.done.size()) > options_.best) sentence.done.pop_back();
  }

  // Whether a row may still change the outcome. No continuation of it scores above log p / lp(limit), and few above
  // what it would have if it ended at once for sure.
  bool is_open(const Sentence& sentence, double value) const {
    if (static_cast<int64_t>(sentence.done.size()) < options_.best) return true;
    int64_t length = options_.early ? std::min(sentence.steps + 1, sentence.limit) : sentence.limit;
    return options_.score(value, length) > sentence.done.back().score;
  }

  bool is_done(const Sentence& sentence) const {
    if (sentence.rows.empty() || sentence.steps >= sentence.limit) return true;
    double best = -INFINITY;
    for (const Row& row : sentence.rows) best = std::max(best, row.score);
    return !is_open(sentence, best);
  }

  void finish(Sentence& sentence) {
    if (sentence.done.empty())
      for (const Row& row : sentence.rows) add(sentence, row, row.score, nullptr);
    work_.outcomes[sentence.request] = std::move(sentence.done);
    decoding_->release(sentence.slot);
    free_.push_back(sentence.slot);
  }

  Work& work_;
  const Options& options_;
  std::unique_ptr<Decoding> decoding_;
  std::vector<Sentence> running_;
  int64_t read_ = 0;  // rows, of all steps
  std::vector<int64_t> free_;
  std::vector<int32_t> never_;
  std::vector<StepRow> step_rows_;
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

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void search(Work& work) { Searching(work).run(); }

}  // namespace regard
