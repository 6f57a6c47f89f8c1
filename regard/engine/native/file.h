// The engine file: settings (a name and a number each) and tensors, read where they lie in the mapped file.
//
// Little-endian. Header of 64 bytes: "RGENGINE", u32 format, u32 settings, u32 tensors, u32 0, u64 size of the file,
// u32 CRC-32 of the whole file with this field as 0, zeros. Then settings of 64 bytes: name[48], f64, zeros. Then tensors
// of 128 bytes: name[64], u32 type, u32 rank, i64 shape[4], u64 offset, u64 bytes, zeros. Data is aligned to 64 bytes.
//
// Everything is checked before it is used: what a hostile file says can make it refused, never read beyond its end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <unordered_map>

#include "room.h"

namespace regard {

class File {
 public:
  explicit File(const char* path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // A setting, which must be there, and be whole and within the bounds.
  int64_t integer(const std::string& name, int64_t low, int64_t high) const;
  bool flag(const std::string& name) const { return integer(name, 0, 1) != 0; }
  // A setting that must be there and be finite.
  double number(const std::string& name) const;

  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  // Tensors, which must be there in just this type and shape.
  const float* floats(const std::string& name, std::initializer_list<int64_t> shape) const;
  const int8_t* bytes(const std::string& name, std::initializer_list<int64_t> shape) const;
  const int32_t* integers(const std::string& name, std::initializer_list<int64_t> shape) const;
  // The length of the first axis of a tensor that must be there.
  int64_t length(const std::string& name) const;

 private:
  struct Tensor {
    uint32_t type;
    uint32_t rank;
    int64_t shape[4];
    const unsigned char* data;
  };
  void read();
  void read_tensor(const unsigned char* entry);
  const unsigned char* find(const std::string& name, uint32_t type, std::initializer_list<int64_t> shape) const;

  std::string path_;
  const unsigned char* data_ = nullptr;
  uint64_t size_ = 0;
  std::unordered_map<std::string, double> settings_;
  std::unordered_map<std::string, Tensor> tensors_;
};

uint32_t crc32(uint32_t start, const unsigned char* data, uint64_t size);

}  // namespace regard
