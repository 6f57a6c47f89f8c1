// What all functions of the C interface share: nothing is ever thrown across it.
#pragma once

#include <cstring>

#include "kernels.h"
#include "decodings.h"
#include "model.h"

#define REGARD_API extern "C" __attribute__((visibility("default")))

namespace regard {

constexpr int64_t MESSAGE = 1024;
enum Status : int32_t { OK = 0, REFUSED = 1, NO_MEMORY = 2, FAILED = 3, STOPPED = 4, MISUSED = 5 };

template <class Function>
int32_t guarded(char* message, Function function) {
  auto tell = [&](const char* text) {
    std::strncpy(message, text, MESSAGE - 1);
    message[MESSAGE - 1] = 0;
  };
  message[0] = 0;
  try {
    function();
    return OK;
  } catch (const Misused& reason) {
    tell(reason.what());
    return MISUSED;
  } catch (const Refused& reason) {
    tell(reason.what());
    return REFUSED;
  } catch (const Stopped& reason) {
    tell(reason.what());
    return STOPPED;
  } catch (const std::bad_alloc&) {
    tell("there is not enough memory");
    return NO_MEMORY;
  } catch (const std::exception& error) {
    tell(error.what());
    return FAILED;
  } catch (...) {
    tell("something was thrown that is no exception");
    return FAILED;
  }
}

struct Engine {
  Model model;
  Machine machine;
  mutable Decodings decodings;
  Engine(const char* path, const Kernels& kernels) : model(path), machine{kernels, model.quantised} {}
};

}  // namespace regard
