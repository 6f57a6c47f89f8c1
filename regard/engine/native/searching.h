// What beams and samples share: sentences enter and leave while others run, rows are read, histories are kept.
#pragma once

#include <memory>
#include <vector>

#include "search.h"

namespace regard {

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
  int32_t state;    // of the constraint, where there is one
};

struct Sentence {
  int64_t request, slot;
  int64_t limit;
  int64_t steps = 0;
  std::vector<Row> rows;
  std::vector<Node> nodes;
  Outcome done;
};

// What a row may say next under a constraint.
struct Permitted {
  std::shared_ptr<const ConstraintState> state;
  std::vector<uint8_t> open;  // which ways of it

  bool may_come(int32_t token) const {
    if (token == END) return state->may_end;
    int32_t way = state->way(token);
    return way >= 0 && open[way];
  }
};

class Searching {
 public:
  // For so many sentences at a time, and rows of each.
  Searching(Work& work, int64_t capacity, int64_t rows);
  virtual ~Searching() = default;
  void run();

 protected:
  // What comes next in each row of this step.
  virtual void project(const Rows& hidden) = 0;
  // Continues one sentence whose rows begin at `first`; ends go to its outcome.
  virtual void advance(Sentence& sentence, size_t first) = 0;
  virtual bool is_done(const Sentence& sentence) const = 0;
  // What the outcome of a sentence still lacks.
  virtual void finish(Sentence& sentence) = 0;

  // Whether the next token is one of the prefix.
  bool forced(const Sentence& sentence) const {
    return sentence.steps < work_.requests[sentence.request].prefix_length;
  }
  int32_t next_forced(const Sentence& sentence) const { return work_.requests[sentence.request].prefix[sentence.steps]; }
  // What may not come next in a row; `room` is for those that have more than what never does.
  const std::vector<int32_t>& forbidden(const Sentence& sentence, const Row& row, std::vector<int32_t>* room) const;
  Constraint* constraint(const Sentence& sentence) const { return work_.requests[sentence.request].constraint; }
  // What a row of a sentence with a constraint may say.
  void permit(const Sentence& sentence, const Row& row, Permitted* permitted) const;
  // The state of the constraint after one more token, 0 where there is no constraint; -1: it contradicts it.
  int32_t state_after(const Sentence& sentence, const Row& row, int32_t token) const;
  // Whether a row may be an output as it is.
  bool satisfies(const Sentence& sentence, const Row& row) const;
  // A row as a hypothesis; `last` is the log-probability of its end, null for one that was cut off.
  Hypothesis told(const Sentence& sentence, const Row& row, double value, const double* last) const;

  // log p = logit - log-sum-exp, in single precision as a model's own log-softmax gives it.
  static double said(float logit, double normaliser) {
    return static_cast<double>(static_cast<float>(static_cast<double>(logit) - normaliser));
  }
  static double normaliser(const Projected& projected);
  // Some of the rows.
  static Rows part(Rows rows, int64_t first, int64_t count);
  // Logits of rows, `logit_stride_` from row to row; behind the last token of each is what cannot come.
  float* logits(const Rows& rows);
  // Of the logits of a row: the largest of each panel, and what its normaliser is made of.
  void survey(const float* logits);

  Work& work_;
  const Options& options_;
  std::unique_ptr<Decoding> decoding_;
  std::vector<Sentence> running_;
  std::vector<StepRow> step_rows_;
  const int64_t panels_, logit_stride_;
  std::vector<float> largest_;  // of each panel
  Projected surveyed_;

 private:
  void admit();
  void step();
  void leave(Sentence& sentence);
  std::vector<int32_t> history(const Sentence& sentence, int32_t node) const;
  void repeated(const Sentence& sentence, const Row& row, std::vector<int32_t>* out) const;

  int64_t capacity_, rows_;
  int64_t read_ = 0;  // rows, of all steps
  std::vector<int64_t> free_;
  std::vector<int32_t> never_;
  Buffer<float> logits_;
};

// The best outputs, and drawn ones.
void search_beams(Work& work);
void draw_samples(Work& work);

}  // namespace regard
