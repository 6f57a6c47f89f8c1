// Loaded before everything else: an allocation that is asked for from within given addresses fails.
#include <cerrno>
#include <cstddef>
#include <cstdint>

extern "C" {

void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static uintptr_t first, last;
static long failing = -1, met;
static bool onwards;

static bool fails(void* caller) {
  uintptr_t from = reinterpret_cast<uintptr_t>(caller);
  if (failing < 0 || from < first || from >= last) return false;
  long number = __atomic_fetch_add(&met, 1, __ATOMIC_RELAXED);
  return onwards ? number >= failing : number == failing;
}

// The allocation of this number, from 0, and those after it if `on`; -1 for none.
void fail_allocation(uintptr_t from, uintptr_t to, long number, int on) {
  first = from, last = to, met = 0, onwards = on, failing = number;
}

long allocations_met() { return met; }

void* malloc(size_t size) noexcept {
  if (!fails(__builtin_return_address(0))) return __libc_malloc(size);
  errno = ENOMEM;
  return nullptr;
}

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  if (!fails(__builtin_return_address(0))) return __libc_memalign(alignment, size);
  errno = ENOMEM;
  return nullptr;
}
}
