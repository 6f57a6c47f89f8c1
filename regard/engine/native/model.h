// A model as the search sees it: encoders leave a memory, decoders go one step further in many rows at once.
#pragma once

#include <memory>
#include <vector>

#include "layers.h"

namespace regard {

// Ids that every vocabulary reserves, as regard/special.py has them.
constexpr int32_t PAD = 0, UNKNOWN = 1, START = 2, END = 3;

// What is read of one source.
struct Source {
  const int32_t* ids;
  int64_t length;
};

// What encoders leave behind of several sentences, packed one behind the other without padding.
struct Memory {
  int64_t width = 0;
  std::vector<int64_t> starts;  // [sentences + 1]
  Buffer<float> states;         // [items][width]
  int64_t summary_width = 0;
  Buffer<float> summary;  // [sentences][summary_width]
  int64_t finals_width = 0;
  Buffer<float> finals;  // [sentences][layers * parts * state width]; empty where there are none

  int64_t sentences() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t items() const { return starts.back(); }
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  int64_t vocabulary = 0;
  int64_t longest = 0;  // 0: no limit
  int64_t memory_width = 0, summary_width = 0, finals_width = 0;
  bool backwards = false;  // its memory begins with the last item
  // Whether a summary is wanted; only some decoders read it.
  virtual void encode(const Machine& machine, const std::vector<Source>& sources, Memory* memory) const = 0;
};

// One row of a step: it continues row `from` of the step before (-1: the beginning of its sentence).
struct StepRow {
  int32_t slot;
  int32_t from;
  int32_t place;  // among the rows of its sentence
  int32_t token;
  int32_t position;
};

// Which attention to the source is told: that of a layer (-1: the last), of a head of it (-1: the mean of all).
struct Reading {
  int64_t layer = -1, head = -1;
};

// The rows of one worker. Sentences live in slots.
class Decoding {
 public:
  virtual ~Decoding() = default;
  virtual void start(const Memory& memory, const std::vector<int64_t>& slots) = 0;
  // Hidden states [rows][hidden width], as the output projection takes them; rows of a sentence stand together.
  virtual Rows step(const std::vector<StepRow>& rows) = 0;
  virtual void release(int64_t slot) = 0;
  // Whether steps also tell `weights`, and which.
  bool weighs = false;
  Reading reading;
  // Of a row of the last step over the memory of its source. Null where there are none.
  virtual const float* weights(int64_t) const { return nullptr; }
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  int64_t vocabulary = 0;
  int64_t longest = 0;  // 0: no limit
  std::vector<int64_t> attention_heads;  // of the attention of each layer to the source; empty where there is none
  Linear output;
  virtual std::unique_ptr<Decoding> decoding(const Machine& machine, int64_t slots, int64_t beam) const = 0;
};

struct Embedding {
  const float* table = nullptr;  // [vocabulary][width]
  int64_t vocabulary = 0, width = 0;
  float scale = 1;

  static Embedding load(const File& file, const std::string& side);
  void look_up(int32_t token, float* out) const {
    const float* from = table + static_cast<int64_t>(token) * width;
    for (int64_t column = 0; column < width; ++column) out[column] = from[column] * scale;
  }
};

struct Model {
  explicit Model(const char* path);
  File file;
  bool quantised = false;
  std::unique_ptr<Encoder> encoder;  // null for a language model
  std::unique_ptr<Decoder> decoder;
};

std::unique_ptr<Encoder> load_transformer_encoder(const File& file, bool quantised);
std::unique_ptr<Encoder> load_recurrent_encoder(const File& file, bool quantised);
std::unique_ptr<Decoder> load_transformer_decoder(const File& file, bool quantised, const Encoder* encoder);
std::unique_ptr<Decoder> load_recurrent_decoder(const File& file, bool quantised, const Encoder* encoder);

}  // namespace regard
