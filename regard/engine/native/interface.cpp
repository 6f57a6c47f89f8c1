// The C interface that Python calls. Every function that can fail returns a status and writes why into `message`.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "guard.h"
#include "requests.h"
#include "search.h"
#include "workers.h"

namespace {

using namespace regard;

constexpr int64_t MOST_SAMPLES = 1 << 16;

struct Result {
  std::vector<Outcome> outcomes;
  std::vector<std::string> faults;  // why a request was not searched; empty where it was
};

struct Asked {
  int64_t requests, capacity, workers;
  const int32_t* ids;
  const int64_t* id_starts;  // [requests + 1]
  const int32_t* prefixes;
  const int64_t* prefix_starts;  // [requests + 1]
  const int64_t* limits;
  int64_t beam, best, min_length, block_ngrams;
  double length_penalty;
  int64_t gnmt, unknown, early;
  const int32_t* stop;  // becomes other than 0 when the search is to end; or null
  double coverage_penalty;
  int64_t sample;  // 1: outputs are drawn
  uint64_t seed;
  const uint64_t* numbers;  // of the requests, by which samples are drawn
  double temperature;
  int64_t rules;  // which of the following are given: 1, 2, 4, 8
  int64_t top_k;
  double top_p, min_p, typical;
  void* const* constraints;     // of the requests, or null; each may be null
  const int64_t* constraint_starts;  // the state that each begins in
  Constraint::Ask ask;               // or null where there are none
};

// A number as it is written.
std::string told(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", number);
  return text;
}

void check_not_negative(const char* name, int64_t number) {
  if (number < 0) throw Misused(std::string(name) + " must be at least 0, not " + std::to_string(number));
}

std::optional<double> share_of(const char* name, bool given, double share) {
  if (!given) return std::nullopt;
  if (!(share > 0 && share <= 1))
    throw Misused(std::string(name) + " must be above 0 and at most 1, or None for all tokens, not " + told(share));
  return share;
}

Sampling sampling_of(const Asked& asked) {
  Sampling sampling;
  sampling.temperature = asked.temperature;
  sampling.seed = asked.seed;
  if (asked.best < 1 || asked.best > MOST_SAMPLES)
    throw Misused("best is the number of samples and must be from 1 to " + std::to_string(MOST_SAMPLES) + ", not " +
                  std::to_string(asked.best));
  if (!(asked.temperature > 0 && std::isfinite(asked.temperature)))
    throw Misused("temperature must be a number above 0, not " + told(asked.temperature) +
                  "; for the most probable token at each step, which is what a temperature near 0 gives, search with a "
                  "beam of 1");
  if (asked.rules & 1) {
    if (asked.top_k < 1)
      throw Misused("top_k must be at least 1, or None for all tokens, not " + std::to_string(asked.top_k));
    sampling.top_k = asked.top_k;
  }
  sampling.top_p = share_of("top_p", asked.rules & 2, asked.top_p);
  sampling.min_p = share_of("min_p", asked.rules & 4, asked.min_p);
  sampling.typical = share_of("typical", asked.rules & 8, asked.typical);
  if (asked.coverage_penalty != 0)
    throw Misused("coverage_penalty has no effect on samples, which are not ranked; leave it out");
  if (asked.early) throw Misused("early stopping has no effect on samples, which run to their own ends; leave it out");
  return sampling;
}

void check_ranking(const Model& model, const Asked& asked) {
  check_beam(asked.beam);
  if (asked.best < 1 || asked.best > asked.beam)
    throw Misused("best must be from 1 to the beam, " + std::to_string(asked.beam) + ", not " + std::to_string(asked.best));
  if (asked.rules || asked.temperature != 1 || asked.seed)
    throw Misused("temperature, top_k, top_p, min_p, typical and seed can only have an effect on samples; ask for "
                  "sample as well (--sample)");
  if (!(asked.coverage_penalty >= 0 && std::isfinite(asked.coverage_penalty)))
    throw Misused("coverage_penalty must be a number from 0 on, not " + told(asked.coverage_penalty) + "; 0 is none");
  if (asked.coverage_penalty > 0 && model.decoder->attention_heads.empty())
    throw Misused("coverage_penalty needs attention to the source, and this model has none; leave it out");
}

Options options_of(const Model& model, const Asked& asked) {
  Options options;
  options.beam = asked.beam;
  options.best = asked.best;
  options.min_length = asked.min_length;
  options.block_ngrams = asked.block_ngrams;
  options.length_penalty = asked.length_penalty;
  options.gnmt = asked.gnmt != 0;
  options.unknown = asked.unknown != 0;
  options.early = asked.early != 0;
  options.coverage_penalty = asked.coverage_penalty;
  if (asked.sample)
    options.sampling = sampling_of(asked);
  else
    check_ranking(model, asked);
  check_sharing(asked.capacity, asked.workers);
  check_not_negative("min_length", asked.min_length);
  check_not_negative("block_ngrams", asked.block_ngrams);
  if (!std::isfinite(asked.length_penalty))
    throw Misused("length_penalty must be a number, not " + told(asked.length_penalty));
  return options;
}

Request request_of(const Model& model, const Asked& asked, int64_t index) {
  Request request{};
  request.source = {asked.ids + asked.id_starts[index], asked.id_starts[index + 1] - asked.id_starts[index]};
  request.prefix = asked.prefixes + asked.prefix_starts[index];
  request.prefix_length = asked.prefix_starts[index + 1] - asked.prefix_starts[index];
  request.number = asked.numbers[index];
  std::string told = "request " + std::to_string(index);
  if (asked.constraints && asked.constraints[index]) {
    if (!asked.ask) throw Refused(told + " has a constraint that nobody tells");
    request.constraint = static_cast<Constraint*>(asked.constraints[index]);
    int64_t start = asked.constraint_starts[index];
    if (request.constraint->vocabulary != model.decoder->vocabulary)
      throw Refused(told + " has a constraint on another vocabulary");
    if (start < 0 || start > INT32_MAX) throw Refused(told + " has a constraint without a beginning");
    request.constraint_start = static_cast<int32_t>(start);
  }
  if (request.prefix_length < 0) throw Refused(told + " has a negative length");
  request.limit = checked_limit(model, asked.limits[index], told);
  check_source(model, request.source, told);
  for (int64_t item = 0; item < request.prefix_length; ++item)
    if (request.prefix[item] < 0 || request.prefix[item] >= model.decoder->vocabulary)
      throw Refused(told + " has a prefix id that the vocabulary does not have");
    else if (request.prefix[item] == PAD || request.prefix[item] == START || request.prefix[item] == END)
      throw Refused(told + " has a prefix id that is no word");
  return request;
}

}  // namespace

REGARD_API int32_t regard_interface() { return 7; }
REGARD_API const char* regard_kernels_here() { return kernels_here(); }

REGARD_API int32_t regard_open(const char* path, const char* kernel_name, void** engine, char* message) {
  return guarded(message, [&] {
    const char* name = *kernel_name ? kernel_name : kernels_wanted();
    const Kernels* table = kernels_by_name(name);
    if (!table)  // those that are told of before are here
      throw Refused(std::string("this process cannot have the kernels ") + name + "; choose others of " + kernels_here());
    *engine = new Engine(path, *table);
  });
}

REGARD_API void regard_close(void* engine) { delete static_cast<Engine*>(engine); }

REGARD_API const char* regard_kernels_of(const void* engine) {
  return static_cast<const Engine*>(engine)->machine.kernels.name;
}

// What is said of a model: int8, source vocabulary (0: it reads nothing), target vocabulary, longest source and output,
// and in how many layers it attends to the source.
REGARD_API void regard_about(const void* engine, int64_t* out) {
  const Model& model = static_cast<const Engine*>(engine)->model;
  out[0] = model.quantised;
  out[1] = model.encoder ? model.encoder->vocabulary : 0;
  out[2] = model.decoder->vocabulary;
  out[3] = model.encoder ? model.encoder->longest : 0;
  out[4] = model.decoder->longest;
  out[5] = static_cast<int64_t>(model.decoder->attention_heads.size());
}

// Of the attention of each of these layers.
REGARD_API void regard_attention_heads(const void* engine, int64_t* out) {
  const Model& model = static_cast<const Engine*>(engine)->model;
  std::copy(model.decoder->attention_heads.begin(), model.decoder->attention_heads.end(), out);
}

// A setting of the file that is not about the model itself.
REGARD_API int32_t regard_setting(const void* engine, const char* name, double* out, char* message) {
  return guarded(message, [&] { *out = static_cast<const Engine*>(engine)->model.file.number(name); });
}

REGARD_API int32_t regard_search(const void* engine, const void* asked_, void** result, char* message) {
  return guarded(message, [&] {
    const Engine& here = *static_cast<const Engine*>(engine);
    const Asked& asked = *static_cast<const Asked*>(asked_);
    Options options = options_of(here.model, asked);
    auto found = std::make_unique<Result>();
    found->outcomes.resize(asked.requests);
    found->faults.resize(asked.requests);
    std::vector<std::pair<Request, int64_t>> right;
    for (int64_t index = 0; index < asked.requests; ++index) try {
        right.emplace_back(request_of(here.model, asked, index), index);
      } catch (const Refused& reason) {
        found->faults[index] = reason.what();
      }
    // Longest sources first: alike lengths run together, room grows once, and workers end at the same time, on short ones.
    std::stable_sort(right.begin(), right.end(), [](const auto& one, const auto& other) {
      return one.first.source.length > other.first.source.length;
    });
    std::vector<Request> requests;
    for (const auto& one : right) requests.push_back(one.first);
    int64_t workers = std::max<int64_t>(1, std::min<int64_t>(asked.workers, requests.size()));
    Work work(here.model, here.machine, here.decodings, options, requests, asked.capacity, workers);
    work.stop = asked.stop;
    work.ask = asked.ask;
    share(workers, work.stopped, [&] { search(work); });
    for (size_t index = 0; index < right.size(); ++index)
      found->outcomes[right[index].second] = std::move(work.outcomes[index]);
    *result = found.release();
  });
}

// Why a request was not searched; "" where it was.
REGARD_API const char* regard_result_fault(const void* result, int64_t request) {
  return static_cast<const Result*>(result)->faults[request].c_str();
}

// How many hypotheses, tokens and steps a result has.
REGARD_API void regard_result_sizes(const void* result, int64_t* sizes) {
  sizes[0] = sizes[1] = sizes[2] = 0;
  for (const Outcome& outcome : static_cast<const Result*>(result)->outcomes)
    for (const Hypothesis& one : outcome) {
      ++sizes[0];
      sizes[1] += static_cast<int64_t>(one.tokens.size());
      sizes[2] += static_cast<int64_t>(one.steps.size());
    }
}

// counts: hypotheses of each request; whole: of each hypothesis its tokens, steps and whether it is complete; values: its
// log-probability, score, and what of it is coverage.
REGARD_API void regard_result_copy(const void* result, int64_t* counts, int64_t* whole, double* values, int32_t* tokens,
                                   double* steps) {
  for (const Outcome& outcome : static_cast<const Result*>(result)->outcomes) {
    *counts++ = static_cast<int64_t>(outcome.size());
    for (const Hypothesis& one : outcome) {
      *whole++ = static_cast<int64_t>(one.tokens.size());
      *whole++ = static_cast<int64_t>(one.steps.size());
      *whole++ = one.complete;
      *values++ = one.log_probability;
      *values++ = one.score;
      *values++ = one.coverage;
      tokens = std::copy(one.tokens.begin(), one.tokens.end(), tokens);
      steps = std::copy(one.steps.begin(), one.steps.end(), steps);
    }
  }
}

REGARD_API void regard_result_free(void* result) { delete static_cast<Result*>(result); }
