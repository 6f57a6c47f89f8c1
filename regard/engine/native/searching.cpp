#include "searching.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace regard {
namespace {

constexpr int64_t SMALL = 512;  // a search that reads no more rows leaves its room to the next

}  // namespace

Searching::Searching(Work& work, int64_t capacity, int64_t rows)
    : work_(work),
      options_(work.options),
      decoding_(work.decodings.take(capacity, rows)),
      panels_((work.model.decoder->vocabulary + PANEL - 1) / PANEL),
      logit_stride_(panels_ * PANEL),
      largest_(panels_),
      capacity_(capacity),
      rows_(rows) {
  if (!decoding_) decoding_ = work.model.decoder->decoding(work.machine, capacity, rows);
  for (int64_t slot = capacity; slot--;) free_.push_back(slot);
  never_ = {PAD, START};
  if (!options_.unknown) never_.push_back(UNKNOWN);
}

void Searching::run() {
  while (!work_.stopped.load(std::memory_order_relaxed)) {
    if (work_.stop && __atomic_load_n(work_.stop, __ATOMIC_RELAXED)) throw Stopped("the search was ended");
    if (static_cast<int64_t>(running_.size()) <= capacity_ * 3 / 4) admit();
    if (running_.empty()) break;
    step();
    if (work_.clock) work_.clock->push_back(seconds());
  }
  if (!running_.empty() || read_ > SMALL) return;
  decoding_->weighs = false;
  work_.decodings.give(std::move(decoding_), capacity_, rows_);
}

// Takes requests and begins them together; near the end each worker takes a small share, so that all end together.
void Searching::admit() {
  int64_t total = static_cast<int64_t>(work_.requests.size());
  int64_t left = total - work_.next.load(std::memory_order_relaxed);
  if (left <= 0) return;
  int64_t share = std::max<int64_t>(1, (left + 2 * work_.workers - 1) / (2 * work_.workers));
  int64_t wanted = std::min<int64_t>(capacity_ - static_cast<int64_t>(running_.size()), share);
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
    sentence.rows.push_back(Row{-1, 0.0, -1, request.constraint_start});
    slots.push_back(sentence.slot);
    running_.push_back(std::move(sentence));
  }
  Memory memory;
  if (work_.model.encoder) work_.model.encoder->encode(work_.machine, sources, &memory);
  decoding_->start(memory, slots);
}

void Searching::step() {
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
      leave(sentence);
      continue;
    }
    if (kept != index) running_[kept] = std::move(sentence);
    ++kept;
  }
  running_.resize(kept);
}

void Searching::leave(Sentence& sentence) {
  finish(sentence);
  work_.outcomes[sentence.request] = std::move(sentence.done);
  decoding_->release(sentence.slot);
  free_.push_back(sentence.slot);
}

const std::vector<int32_t>& Searching::forbidden(const Sentence& sentence, const Row& row,
                                                 std::vector<int32_t>* room) const {
  if (sentence.steps + 1 >= options_.min_length && !options_.block_ngrams) return never_;
  *room = never_;
  if (sentence.steps + 1 < options_.min_length) room->push_back(END);
  if (options_.block_ngrams) repeated(sentence, row, room);
  return *room;
}

void Searching::permit(const Sentence& sentence, const Row& row, Permitted* permitted) const {
  Constraint& one = *constraint(sentence);
  permitted->state = one.state(row.state, work_.ask);
  one.open_ways(row.state, *permitted->state, sentence.limit - sentence.steps, work_.ask, &permitted->open);
}

int32_t Searching::state_after(const Sentence& sentence, const Row& row, int32_t token) const {
  Constraint* one = constraint(sentence);
  return one ? one->state(row.state, work_.ask)->after(token) : 0;
}

bool Searching::satisfies(const Sentence& sentence, const Row& row) const {
  Constraint* one = constraint(sentence);
  return !one || one->state(row.state, work_.ask)->may_end;
}

std::vector<int32_t> Searching::history(const Sentence& sentence, int32_t node) const {
  std::vector<int32_t> tokens;
  for (; node >= 0; node = sentence.nodes[node].before) tokens.push_back(sentence.nodes[node].token);
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

// The tokens that would make the last n tokens something that was said before.
void Searching::repeated(const Sentence& sentence, const Row& row, std::vector<int32_t>* out) const {
  std::vector<int32_t> said = history(sentence, row.node);
  int64_t length = options_.block_ngrams, count = static_cast<int64_t>(said.size());
  for (int64_t end = length - 1; end < count; ++end)
    if (std::equal(said.begin() + (end - length + 1), said.begin() + end, said.end() - (length - 1)))
      out->push_back(said[end]);
}

Hypothesis Searching::told(const Sentence& sentence, const Row& row, double value, const double* last) const {
  Hypothesis hypothesis;
  hypothesis.tokens = history(sentence, row.node);
  for (int32_t node = row.node; node >= 0; node = sentence.nodes[node].before)
    hypothesis.steps.push_back(sentence.nodes[node].said);
  std::reverse(hypothesis.steps.begin(), hypothesis.steps.end());
  if (last) hypothesis.steps.push_back(*last);
  hypothesis.log_probability = value;
  hypothesis.complete = last != nullptr;
  return hypothesis;
}

double Searching::normaliser(const Projected& projected) {
  double total = 0;
  for (float part : projected.sums) total += static_cast<double>(part);
  double value = static_cast<double>(projected.largest) + std::log(total);
  if (std::isnan(value))
    throw Refused("the model says NaN instead of probabilities; its weights are damaged or diverged");
  return value;
}

Rows Searching::part(Rows rows, int64_t first, int64_t count) {
  rows.count = count;
  if (rows.floats) rows.floats += first * rows.stride;
  if (rows.bytes) rows.bytes += first * rows.byte_stride;
  if (rows.scales) rows.scales += first;
  return rows;
}

float* Searching::logits(const Rows& rows) {
  const Weights& output = work_.model.decoder->output.weights;
  Store store;
  store.out = logits_.need(rows.count * logit_stride_);
  store.stride = logit_stride_;
  work_.machine.kernels.product(rows, output, store);
  for (int64_t row = 0; row < rows.count; ++row)
    std::fill(store.out + row * logit_stride_ + output.outputs, store.out + (row + 1) * logit_stride_, -INFINITY);
  return store.out;
}

void Searching::survey(const float* logits) {
  work_.machine.kernels.survey(logits, panels_, largest_.data(), &surveyed_);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void search(Work& work) { work.options.sampling ? draw_samples(work) : search_beams(work); }

}  // namespace regard
