// What is asked for is checked before it is searched.
#pragma once

#include <string>

#include "model.h"

namespace regard {

inline void check_source(const Model& model, const Source& source, const std::string& told) {
  if (source.length < 0) throw Refused(told + " has a negative length");
  if (!model.encoder) return;
  if (!source.length) throw Refused(told + " has an empty source");
  if (model.encoder->longest && source.length > model.encoder->longest)
    throw Refused("a sequence of " + std::to_string(source.length) + " tokens is longer than the " +
                  std::to_string(model.encoder->longest) + " learned positions of this model");
  for (int64_t item = 0; item < source.length; ++item)
    if (source.ids[item] < 0 || source.ids[item] >= model.encoder->vocabulary)
      throw Refused(told + " has a source id that the vocabulary does not have");
}

// How a call is shared between workers, and how many sentences of it run together in each.
inline void check_sharing(int64_t capacity, int64_t workers) {
  if (capacity < 1 || capacity > 4096) throw Refused("the capacity must be from 1 to 4096");
  if (workers < 1 || workers > 1024) throw Refused("there must be 1 to 1024 workers");
}

}  // namespace regard
