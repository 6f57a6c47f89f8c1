// Work that several threads share.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace regard {

// One worker on this thread and each of the others on its own; the first error ends all, by `stopped`.
template <class Function>
void share(int64_t workers, std::atomic<bool>& stopped, Function function) {
  std::mutex mutex;
  std::exception_ptr error;
  auto one = [&] {
    try {
      function();
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
      stopped = true;
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int64_t worker = 1; worker < workers; ++worker) threads.emplace_back(one);
  } catch (const std::exception&) {
    // no more threads or no memory for them are to be had; those that are there do all the work
  }
  one();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace regard
