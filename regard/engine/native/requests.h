// What is asked for is checked before it is searched.
#pragma once

#include <algorithm>
#include <string>

#include "model.h"

namespace regard {

constexpr int64_t LONGEST = 65535;  // tokens of an output, its end included

inline void check_source(const Model& model, const Source& source, const std::string& told) {
  if (source.length < 0) throw Refused(told + " has a negative length");
  if (!model.encoder) return;
  if (!source.length) throw Refused(told + " has an empty source");
  if (model.encoder->longest && source.length > model.encoder->longest)
    throw Refused(told + ": a sequence of " + std::to_string(source.length) + " tokens is longer than the " +
                  std::to_string(model.encoder->longest) + " learned positions of this model");
  for (int64_t item = 0; item < source.length; ++item)
    if (source.ids[item] < 0 || source.ids[item] >= model.encoder->vocabulary)
      throw Refused(told + " has a source id that the vocabulary does not have");
}

// How a call is shared between workers, and how many sentences of it run together in each.
inline void check_sharing(int64_t capacity, int64_t workers) {
  if (capacity < 1 || capacity > 4096)
    throw Misused("the capacity must be from 1 to 4096, not " + std::to_string(capacity));
  if (workers < 1 || workers > 1024) throw Misused("there must be 1 to 1024 workers, not " + std::to_string(workers));
}

// Kernels have room for so many candidates of a row.
inline void check_beam(int64_t beam) {
  if (beam < 1 || beam > LONGEST_K)
    throw Misused("the beam must be from 1 to " + std::to_string(LONGEST_K) + ", not " + std::to_string(beam));
}

// The most tokens of an output, no more than the model has positions.
inline int64_t checked_limit(const Model& model, int64_t limit, const std::string& told) {
  if (limit < 1 || limit > LONGEST)
    throw Refused(told + " has a limit that is not from 1 to " + std::to_string(LONGEST));
  return model.decoder->longest ? std::min(limit, model.decoder->longest) : limit;
}

}  // namespace regard
