// Memory that is kept from step to step, and errors.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

namespace regard {

// A file or a request that is not accepted; the text says why.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A search that cannot be asked for.
struct Misused : Refused {
  using Refused::Refused;
};

// The caller wants no more of it.
struct Stopped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Room for numbers that only grows; what is in it is lost when it does.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
    other.size_ = 0;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  // So many numbers, and a vector's worth behind them that may be read.
  T* need(int64_t count) {
    if (count > size_ || !data_) {
      if (count > (int64_t{1} << 40)) throw std::bad_alloc();
      std::free(data_);
      data_ = nullptr;
      size_ = 0;
      size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 127) / 64 * 64;
      data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
      if (!data_) throw std::bad_alloc();
      size_ = count;
    }
    return data_;
  }
  T* get() const { return data_; }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace regard
