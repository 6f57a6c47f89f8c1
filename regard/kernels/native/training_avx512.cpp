// x86 with AVX-512. Built with -mavx512f -mavx512bw -mavx512dq -mavx512vl.
#include "kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

#define REGARD_LANES 16
#define REGARD_NAME "avx512"
#define REGARD_AVX512

namespace regard {
namespace avx512 {
#include "lanes.h"
#include "rows.h"
#include "attention.h"
#include "agreement.h"
#include "search.h"
#include "steps.h"
#include "table.h"
}  // namespace avx512

const Kernels* avx512_kernels() { return &avx512::TABLE; }
}  // namespace regard
#else
namespace regard {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace regard
#endif
