// Search with the definitions of regard/search: the same penalties, the same bound, the same order, the same draws.
//
// Sentences enter and leave while others run; a worker steps all its rows at once. What a sentence gives depends on its
// own request only. Sums of log-probabilities run in double precision.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "constraint.h"
#include "decodings.h"
#include "model.h"

namespace regard {

// How outputs are drawn: the distribution to the power 1 / temperature, then what each rule leaves of it.
struct Sampling {
  double temperature = 1;
  std::optional<int64_t> top_k;
  std::optional<double> top_p, min_p, typical;
  uint64_t seed = 0;
};

struct Options {
  int64_t beam = 1, best = 1, min_length = 1, block_ngrams = 0;
  double length_penalty = 0, coverage_penalty = 0;
  bool gnmt = false, unknown = false;
  bool early = false;  // a search is over when none that runs would be better if it ended at once
  std::optional<Sampling> sampling;  // `best` outputs are drawn; beam and penalties are not used
  // What a hypothesis is ranked by, without its coverage.
  double score(double log_probability, int64_t length) const;
};

struct Request {
  Source source;
  const int32_t* prefix;
  int64_t prefix_length;
  int64_t limit;
  uint64_t number;  // by which its samples are drawn
  Constraint* constraint;  // that outputs satisfy; or null
  int32_t constraint_start;
};

struct Hypothesis {
  std::vector<int32_t> tokens;
  std::vector<double> steps;  // log-probability of each token, the end included where there is one
  double log_probability = 0, score = 0, coverage = 0;  // what coverage adds is part of the score
  bool complete = false;
};

using Outcome = std::vector<Hypothesis>;  // best first; samples by their numbers

// Requests that several workers take from, the outcome of each, and the first error.
struct Work {
  const Model& model;
  const Machine& machine;
  Decodings& decodings;
  Options options;
  const std::vector<Request>& requests;
  int64_t capacity;
  int64_t workers;
  std::vector<Outcome> outcomes;
  std::atomic<int64_t> next{0};
  std::atomic<bool> stopped{false};
  Constraint::Ask ask = nullptr;  // who knows constraints; or null where no request has one
  const int32_t* stop = nullptr;  // other than 0: end at once; or null
  std::vector<double>* clock = nullptr;  // seconds after each step of the only worker; or null

  Work(const Model& model, const Machine& machine, Decodings& decodings, const Options& options,
       const std::vector<Request>& requests, int64_t capacity, int64_t workers)
      : model(model),
        machine(machine),
        decodings(decodings),
        options(options),
        requests(requests),
        capacity(capacity),
        workers(workers),
        outcomes(requests.size()) {}
};

// Takes requests until there are none left.
void search(Work& work);

// On a clock that never goes back.
double seconds();

}  // namespace regard
