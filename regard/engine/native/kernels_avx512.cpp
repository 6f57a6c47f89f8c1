// x86 with AVX-512 and its byte products (VNNI). Built with -mavx512f -mavx512bw -mavx512dq -mavx512vl
// -mavx512vnni.
#include "kernels.h"

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include <immintrin.h>

#define REGARD_LANES 16
#define REGARD_NAME "avx512_vnni"
#define REGARD_AVX512

namespace regard {
namespace avx512 {
#include "kernel_math.h"
#include "kernel_tiles.h"
#include "kernel_by_rows.h"
#include "kernel_rows.h"
#include "kernel_kept.h"
#include "kernel_attention.h"
#include "kernel_additive.h"
#include "kernel_cells.h"
#include "kernel_draws.h"
#include "kernel_table.h"
}  // namespace avx512

const Kernels* avx512_kernels() { return &avx512::TABLE; }
}  // namespace regard
#else
namespace regard {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace regard
#endif
