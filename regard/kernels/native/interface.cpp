// The C interface, the choice of kernels, and the threads that share their rows: those of the OpenMP pool that torch has
// loaded, because a second pool would fight with it for the cores.
#include <cstdlib>
#include <cstring>

#include "kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define REGARD_API extern "C" __attribute__((visibility("default")))

namespace regard {
namespace {

constexpr int32_t INTERFACE = 9;

#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && has_avx2();
}
bool has_avx512_bf16() { return __builtin_cpu_supports("avx512bf16") && has_avx512(); }
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_avx512_bf16() { return false; }
#endif

// The unit for matrices has registers that the system saves only for processes that have asked for it, which no process
// should that does not use it. GCC 12 cannot be asked for it by name: leaf 7, EDX bits 22 (bfloat16) and 24 (tiles).
bool gets_amx_bf16() {
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long REQUEST = 0x1023, TILES = 18;
  constexpr unsigned WANTED = 1u << 22 | 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!has_avx512_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & WANTED) != WANTED) return false;
  static const bool granted = syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
  return granted;
#else
  return false;
#endif
}

constexpr int SETS = 5;

const Kernels* table_at(int index) {
  if (index == 0) return amx_bf16_kernels() && gets_amx_bf16() ? amx_bf16_kernels() : nullptr;
  if (index == 1) return has_avx512_bf16() ? avx512_bf16_kernels() : nullptr;
  if (index == 2) return has_avx512() ? avx512_kernels() : nullptr;
  if (index == 3) return has_avx2() ? avx2_kernels() : nullptr;
  return portable_kernels();
}
constexpr const char* NAMES[SETS] = {"amx_bf16", "avx512_bf16", "avx512", "avx2", "portable"};

const Kernels* used = portable_kernels();  // until others are asked for

using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
using Number = int (*)();
Parallel parallel = nullptr;
Number thread_number = nullptr, thread_count = nullptr;

template <class Work>
struct Shared {
  Work* work;
  int64_t items;
};

template <class Work>
void share(void* given) {
  auto* shared = static_cast<Shared<Work>*>(given);
  int64_t count = thread_count(), number = thread_number();
  int64_t from = shared->items * number / count, to = shared->items * (number + 1) / count;
  if (from < to) (*shared->work)(from, to);
}

// Deals `items` out to threads; work(from, to) must not depend on how.
template <class Work>
void deal(int64_t items, int64_t threads, Work work) {
  if (threads > items) threads = items;
  if (items <= 0) return;
  if (threads < 2 || !parallel) return work(int64_t{0}, items);
  Shared<Work> shared = {&work, items};
  parallel(share<Work>, &shared, static_cast<unsigned>(threads), 0);
}

uint64_t spread(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace
}  // namespace regard

using namespace regard;

REGARD_API int32_t regard_interface() { return INTERFACE; }
REGARD_API const char* regard_kernels_used() { return used->name; }

// 1 where kernels of this name work here, which then are used; of no name, the best.
REGARD_API int32_t regard_use_kernels(const char* name) {
  for (int index = 0; index < SETS; ++index) {
    if (*name && std::strcmp(NAMES[index], name)) continue;
    if (const Kernels* table = table_at(index)) {
      used = table;
      return 1;
    }
  }
  return 0;
}

REGARD_API void regard_use_threads(void* start, void* number, void* count) {
  parallel = reinterpret_cast<Parallel>(start);
  thread_number = reinterpret_cast<Number>(number);
  thread_count = reinterpret_cast<Number>(count);
}

// Keys are made of the seed so that seeds that differ in one bit have nothing in common.
REGARD_API void regard_chance(uint64_t seed, uint32_t limit, Chance* chance) {
  uint64_t state = seed;
  uint64_t one = spread(&state), other = spread(&state);
  *chance = {{static_cast<uint32_t>(one), static_cast<uint32_t>(one >> 32), static_cast<uint32_t>(other)},
             limit,
             65536.0f / static_cast<float>(65536 - limit)};
}

REGARD_API void regard_dropped(const Dropped* asked, int64_t rows, int64_t threads) {
  deal(rows, threads, [&](int64_t from, int64_t to) { used->dropped(*asked, from, to); });
}

REGARD_API void regard_rectified(const Rectified* asked, int64_t threads) {
  deal(asked->rows, threads, [&](int64_t from, int64_t to) { used->rectified(*asked, from, to); });
}

REGARD_API int64_t regard_blocks(int64_t rows) { return (rows + BLOCK - 1) / BLOCK; }

namespace {
// Leaves the sums of all blocks in the first one.
void sum_up(float* sums, int64_t blocks, int64_t width) {
  for (int64_t block = 1; block < blocks; ++block)
    for (int64_t column = 0; column < width; ++column) sums[column] += sums[block * width + column];
}
}  // namespace

REGARD_API void regard_rectified_backward(const Rectified* asked, int64_t threads) {
  int64_t blocks = regard_blocks(asked->rows);
  deal(blocks, threads, [&](int64_t from, int64_t to) { used->rectified_backward(*asked, from, to); });
  sum_up(asked->sums, blocks, asked->width);
}

REGARD_API void regard_normed(const Normed* asked, int64_t threads) {
  deal(asked->rows, threads, [&](int64_t from, int64_t to) { used->normed(*asked, from, to); });
}

REGARD_API void regard_normed_backward(const NormedBackward* asked, int64_t threads) {
  int64_t blocks = regard_blocks(asked->rows);
  deal(blocks, threads, [&](int64_t from, int64_t to) { used->normed_backward(*asked, from, to); });
  sum_up(asked->sums, blocks, 3 * asked->width);
}

namespace {
int32_t attend(const Attention* asked, int64_t threads, bool backward) {
  bool enough = true;
  deal(asked->rows * asked->key_heads, threads, [&](int64_t from, int64_t to) {
    size_t bytes = (static_cast<size_t>(used->attention_room(*asked)) * sizeof(float) + 63) / 64 * 64;
    auto* room = static_cast<float*>(std::aligned_alloc(64, bytes));  // vectors then never span two lines of a cache
    if (!room)
      enough = false;
    else
      (backward ? used->attention_backward : used->attention)(*asked, from, to, room);
    std::free(room);
  });
  return enough;
}
}  // namespace

// 0 where there was no memory.
REGARD_API int32_t regard_attention(const Attention* asked, int64_t threads) { return attend(asked, threads, false); }
REGARD_API int32_t regard_attention_backward(const Attention* asked, int64_t threads) {
  int32_t enough = attend(asked, threads, true);
  if (asked->query_sums) sum_up(asked->query_sums, asked->rows, asked->heads * asked->width);
  if (asked->key_sums) sum_up(asked->key_sums, asked->rows, 2 * asked->key_heads * asked->width);
  return enough;
}

REGARD_API void regard_peaked(const Peaked* asked, int64_t rows, int64_t threads) {
  deal(rows, threads, [&](int64_t from, int64_t to) { used->peaked(*asked, from, to); });
}

REGARD_API void regard_agreed(const Agreed* asked, int64_t threads) {
  deal(asked->pairs, threads, [&](int64_t from, int64_t to) { used->agreed(*asked, from, to); });
}

REGARD_API void regard_gated(const Gated* asked, int64_t rows, int64_t threads) {
  deal(rows, threads, [&](int64_t from, int64_t to) { used->gated(*asked, from, to); });
}

REGARD_API void regard_compared(const Compared* asked, int64_t rows, int64_t threads) {
  deal(rows, threads, [&](int64_t from, int64_t to) { used->compared(*asked, from, to); });
}

REGARD_API void regard_chosen(const Chosen* asked, int64_t sentences, int64_t threads) {
  deal(sentences, threads, [&](int64_t from, int64_t to) { used->chosen(*asked, from, to); });
}

REGARD_API void regard_summed(const Summed* asked, int64_t rows, int64_t threads) {
  deal(rows, threads, [&](int64_t from, int64_t to) { used->summed(*asked, from, to); });
}

// 0 where there was no memory.
REGARD_API int32_t regard_stepped(const Stepped* asked) {
  size_t bytes = (static_cast<size_t>(used->step_room(*asked)) * sizeof(float) + 63) / 64 * 64;
  auto* room = static_cast<float*>(std::aligned_alloc(64, bytes));
  if (!room) return 0;
  used->stepped(*asked, room);
  std::free(room);
  return 1;
}

// Whether there are products of bfloat16 numbers.
REGARD_API int32_t regard_has_half() { return used->half != nullptr; }

namespace {
int64_t panels_of(int64_t columns) { return (columns + PANEL - 1) / PANEL; }

// Words on a line of a cache of their own, or null.
struct Words {
  uint32_t* at;
  explicit Words(int64_t count)
      : at(static_cast<uint32_t*>(std::aligned_alloc(64, (static_cast<size_t>(count) * 4 + 63) / 64 * 64))) {}
  Words(const Words&) = delete;
  ~Words() { std::free(at); }
};
}  // namespace

// A weight that many products share is laid out once: how many words it takes, and the words.
REGARD_API int64_t regard_packed_room(const Product* asked) { return used->half->packed_room(*asked); }
REGARD_API void regard_pack(const Product* asked, uint32_t* packed) {
  used->half->pack(*asked, 0, panels_of(asked->columns), packed);
}

namespace {
bool multiply(const Product* asked, const uint32_t* packed, int64_t threads) {
  const HalfKernels& half = *used->half;
  bool enough = true;
  deal(asked->rows, threads, [&](int64_t from, int64_t to) {
    Words room(half.multiply_room(*asked));
    if (room.at)
      half.multiply(*asked, from, to, packed, room.at);
    else
      enough = false;
  });
  return enough;
}
}  // namespace

// 0 where there was no memory; so the others.
REGARD_API int32_t regard_product(const Product* asked, int64_t threads) {
  if (asked->packed) return multiply(asked, asked->packed, threads);
  Words packed(regard_packed_room(asked));
  if (!packed.at) return 0;
  regard_pack(asked, packed.at);
  return multiply(asked, packed.at, threads);
}

REGARD_API int32_t regard_turned_product(const Turned* asked, int64_t threads) {
  const HalfKernels& half = *used->half;
  bool enough = true;
  deal(panels_of(asked->outputs), threads, [&](int64_t from, int64_t to) {
    Words room(half.turned_room(*asked));
    if (room.at)
      half.multiply_turned(*asked, from, to, room.at);
    else
      enough = false;
  });
  return enough;
}

// A chunk of rows after the other: their loss, then what it means for the words.
REGARD_API int32_t regard_loss(const Loss* asked, int64_t threads) {
  const HalfKernels& half = *used->half;
  int64_t panels = panels_of(asked->vocabulary);
  Words room(half.loss_room(*asked));
  if (!room.at) return 0;
  deal(panels, threads, [&](int64_t from, int64_t to) { half.loss_begin(*asked, from, to, room.at); });
  for (int64_t start = 0; start < asked->rows; start += half.chunk) {
    int64_t rows = asked->rows - start < half.chunk ? asked->rows - start : half.chunk;
    deal(rows, threads, [&](int64_t from, int64_t to) { half.loss_rows(*asked, start, from, to, room.at); });
    if (!asked->of_weight && !asked->of_bias) continue;
    half.loss_scale(*asked, start, rows, room.at);
    deal(panels, threads, [&](int64_t from, int64_t to) { half.loss_words(*asked, start, rows, from, to, room.at); });
  }
  return 1;
}

namespace {
template <class Asked>
const Asked* as(const Call& call) {
  return static_cast<const Asked*>(call.asked);
}

int32_t run(const Call& call, int64_t threads) {
  switch (call.kind) {
    case Call::PRODUCT: return regard_product(as<Product>(call), threads);
    case Call::TURNED: return regard_turned_product(as<Turned>(call), threads);
    case Call::RECTIFIED: return regard_rectified(as<Rectified>(call), threads), 1;
    case Call::RECTIFIED_BACKWARD: return regard_rectified_backward(as<Rectified>(call), threads), 1;
    case Call::NORMED: return regard_normed(as<Normed>(call), threads), 1;
    case Call::NORMED_BACKWARD: return regard_normed_backward(as<NormedBackward>(call), threads), 1;
    case Call::ATTENTION: return regard_attention(as<Attention>(call), threads);
    case Call::ATTENTION_BACKWARD: return regard_attention_backward(as<Attention>(call), threads);
  }
  return 0;
}
}  // namespace

// Several calls, one after the other: whoever makes them asks for Python's lock only once.
REGARD_API int32_t regard_calls(const Call* calls, int64_t count, int64_t threads) {
  for (int64_t index = 0; index < count; ++index)
    if (!run(calls[index], threads)) return 0;
  return 1;
}
