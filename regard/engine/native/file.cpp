#include "file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

namespace regard {
namespace {

constexpr uint64_t HEADER = 64, SETTING = 64, TENSOR = 128, CHECKSUM_AT = 32;
constexpr uint32_t FORMAT = 1, MOST_SETTINGS = 10'000, MOST_TENSORS = 100'000;
constexpr uint64_t SIZES[] = {4, 1, 4};  // of float32, int8, int32

template <class T>
T read_as(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

std::string name_at(const unsigned char* from, size_t room) {
  const void* end = std::memchr(from, 0, room);
  if (!end || end == from) throw Refused("a name in its tables is empty or has no end");
  return std::string(reinterpret_cast<const char*>(from), static_cast<const unsigned char*>(end) - from);
}

struct Table {
  uint32_t parts[8][256];
  Table() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
      parts[0][byte] = value;
    }
    for (int part = 1; part < 8; ++part)
      for (uint32_t byte = 0; byte < 256; ++byte)
        parts[part][byte] = parts[part - 1][byte] >> 8 ^ parts[0][parts[part - 1][byte] & 255];
  }
};

}  // namespace

// The CRC of zlib and PNG, eight bytes at a time.
uint32_t crc32(uint32_t start, const unsigned char* data, uint64_t size) {
  static const Table table;
  uint32_t value = ~start;
  for (; size >= 8; size -= 8, data += 8) {
    uint32_t low = read_as<uint32_t>(data) ^ value, high = read_as<uint32_t>(data + 4);
    value = table.parts[7][low & 255] ^ table.parts[6][low >> 8 & 255] ^ table.parts[5][low >> 16 & 255] ^
            table.parts[4][low >> 24] ^ table.parts[3][high & 255] ^ table.parts[2][high >> 8 & 255] ^
            table.parts[1][high >> 16 & 255] ^ table.parts[0][high >> 24];
  }
  for (; size; --size, ++data) value = value >> 8 ^ table.parts[0][(value ^ *data) & 255];
  return ~value;
}

File::File(const char* path) : path_(path) {
  int handle = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for a writer
  if (handle < 0) throw Refused(path_ + ": cannot be opened (" + std::strerror(errno) + ")");
  struct stat about {};
  bool regular = ::fstat(handle, &about) == 0 && S_ISREG(about.st_mode);
  size_ = regular ? static_cast<uint64_t>(about.st_size) : 0;
  void* mapped = MAP_FAILED;
  if (size_ >= HEADER) mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, handle, 0);
  ::close(handle);
  if (!regular) throw Refused(path_ + ": not a file");
  if (size_ < HEADER) throw Refused(path_ + ": not an engine file, it is too short; prepare the run again");
  if (mapped == MAP_FAILED) throw Refused(path_ + ": cannot be mapped (" + std::strerror(errno) + ")");
  data_ = static_cast<const unsigned char*>(mapped);
  try {
    read();
  } catch (const Refused& reason) {
    ::munmap(const_cast<unsigned char*>(data_), size_);
    throw Refused(path_ + ": not a whole engine file: " + reason.what() + "; prepare the run again");
  } catch (...) {
    ::munmap(const_cast<unsigned char*>(data_), size_);
    throw;
  }
}

File::~File() { ::munmap(const_cast<unsigned char*>(data_), size_); }

void File::read() {
  if (std::memcmp(data_, "RGENGINE", 8)) throw Refused("it does not begin like one");
  uint32_t format = read_as<uint32_t>(data_ + 8);
  if (format != FORMAT)
    throw Refused("it has format " + std::to_string(format) + " and this version reads " + std::to_string(FORMAT));
  if (read_as<uint64_t>(data_ + 24) != size_) throw Refused("it was cut off or has something behind it");
  const unsigned char zeros[4] = {};
  uint32_t checksum = crc32(0, data_, CHECKSUM_AT);
  checksum = crc32(checksum, zeros, 4);
  checksum = crc32(checksum, data_ + CHECKSUM_AT + 4, size_ - CHECKSUM_AT - 4);
  if (checksum != read_as<uint32_t>(data_ + CHECKSUM_AT)) throw Refused("its checksum is wrong");
  uint64_t settings = read_as<uint32_t>(data_ + 12), tensors = read_as<uint32_t>(data_ + 16);
  if (settings > MOST_SETTINGS || tensors > MOST_TENSORS || HEADER + settings * SETTING + tensors * TENSOR > size_)
    throw Refused("its tables are longer than it");
  for (uint64_t index = 0; index < settings; ++index) {
    const unsigned char* entry = data_ + HEADER + index * SETTING;
    if (!settings_.emplace(name_at(entry, 48), read_as<double>(entry + 48)).second)
      throw Refused("a setting is there twice");
  }
  for (uint64_t index = 0; index < tensors; ++index)
    read_tensor(data_ + HEADER + settings * SETTING + index * TENSOR);
}

void File::read_tensor(const unsigned char* entry) {
  Tensor tensor{};
  std::string name = name_at(entry, 64);
  tensor.type = read_as<uint32_t>(entry + 64);
  tensor.rank = read_as<uint32_t>(entry + 68);
  if (tensor.type > 2 || tensor.rank < 1 || tensor.rank > 4) throw Refused("a tensor has an unknown type or rank");
  uint64_t bytes = SIZES[tensor.type];
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    tensor.shape[axis] = read_as<int64_t>(entry + 72 + 8 * axis);
    if (tensor.shape[axis] < 0 || tensor.shape[axis] > (int64_t{1} << 40))
      throw Refused("a tensor has an impossible shape");
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[axis]), &bytes))
      throw Refused("a tensor has an impossible shape");
  }
  uint64_t offset = read_as<uint64_t>(entry + 104), told = read_as<uint64_t>(entry + 112);
  if (bytes != told || offset % 64 || offset > size_ || bytes > size_ - offset)
    throw Refused("tensor " + name + " does not lie within it");
  tensor.data = data_ + offset;
  if (!tensors_.emplace(name, tensor).second) throw Refused("a tensor is there twice");
}

double File::number(const std::string& name) const {
  auto found = settings_.find(name);
  if (found == settings_.end()) throw Refused("setting " + name + " is missing");
  if (!std::isfinite(found->second)) throw Refused("setting " + name + " is not a number");
  return found->second;
}

int64_t File::integer(const std::string& name, int64_t low, int64_t high) const {
  double value = number(name);
  if (value != std::floor(value) || value < static_cast<double>(low) || value > static_cast<double>(high))
    throw Refused("setting " + name + " is " + std::to_string(value) + " and not a whole number from " +
                  std::to_string(low) + " to " + std::to_string(high));
  return static_cast<int64_t>(value);
}

const unsigned char* File::find(const std::string& name, uint32_t type, std::initializer_list<int64_t> shape) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) throw Refused("tensor " + name + " is missing");
  const Tensor& tensor = found->second;
  bool fits = tensor.type == type && tensor.rank == shape.size();
  uint32_t axis = 0;
  for (int64_t length : shape) fits = fits && tensor.shape[axis++] == length;
  if (!fits) throw Refused("tensor " + name + " has another type or shape than the settings say");
  return tensor.data;
}

const float* File::floats(const std::string& name, std::initializer_list<int64_t> shape) const {
  return reinterpret_cast<const float*>(find(name, 0, shape));
}

const int8_t* File::bytes(const std::string& name, std::initializer_list<int64_t> shape) const {
  return reinterpret_cast<const int8_t*>(find(name, 1, shape));
}

const int32_t* File::integers(const std::string& name, std::initializer_list<int64_t> shape) const {
  return reinterpret_cast<const int32_t*>(find(name, 2, shape));
}

int64_t File::length(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) throw Refused("tensor " + name + " is missing");
  return found->second.shape[0];
}

}  // namespace regard
