// Which kernels work here, and which are used.
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace regard {
namespace {

#if defined(__x86_64__)
// GCC 12 cannot be asked for AVX-VNNI by name: leaf 7, subleaf 1, EAX bit 4.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#else
bool has_avx_vnni() { return false; }
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

// The unit for matrices has registers that the system saves only for processes that have asked for it, which no process
// should that does not use it. GCC 12 cannot be asked for it by name: leaf 7, EDX bits 24 (tiles) and 25 (bytes).
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
bool has_amx() {
  constexpr long SUPPORTED = 0x1021;
  constexpr unsigned WANTED = 1u << 24 | 1u << 25;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!has_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & WANTED) != WANTED) return false;
  uint64_t features = 0;
  return syscall(SYS_arch_prctl, SUPPORTED, &features) == 0 && (features >> 18 & 1);
}
bool gets_amx() {
  constexpr long REQUEST = 0x1023, TILES = 18;
  static const bool granted = syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
  return granted;
}
#else
bool has_amx() { return false; }
bool gets_amx() { return false; }
#endif

struct Here {
  const Kernels* tables[5] = {};
  int count = 0;
  std::string names;

  void add(const Kernels* table) {
    if (!table) return;
    names += (count ? " " : "") + std::string(table->name);
    tables[count++] = table;
  }

  Here() {
#if defined(REGARD_TEST_VNNI_256)
    bool vnni256 = has_avx512();
#else
    bool vnni256 = has_avx2() && has_avx_vnni();
#endif
    if (has_amx()) add(amx_kernels());  // if the process gets it
    if (has_avx512()) add(avx512_kernels());
    if (vnni256) add(avx_vnni_kernels());
    if (has_avx2()) add(avx2_kernels());
    add(portable_kernels());
  }
};

const Here& here() {
  static const Here found;
  return found;
}

}  // namespace

const Kernels* kernels_by_name(const char* name) {
  for (int index = 0; index < here().count; ++index)
    if (const Kernels* table = here().tables[index]; !std::strcmp(table->name, name))
      return table == amx_kernels() && !gets_amx() ? nullptr : table;
  return nullptr;
}

const char* kernels_wanted() {
  const char* wanted = std::getenv("REGARD_ENGINE_KERNELS");
  if (wanted && *wanted) return wanted;
  bool beyond = here().tables[0] == amx_kernels() && amx_kernels() && !gets_amx();
  return here().tables[beyond ? 1 : 0]->name;
}

const char* kernels_here() { return here().names.c_str(); }

}  // namespace regard
