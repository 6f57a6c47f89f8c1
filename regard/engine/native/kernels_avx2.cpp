// x86 with AVX2 and FMA (from 2013 on). Built with -mavx2 -mfma; run only where the processor has both.
#include "kernels.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#define REGARD_LANES 8
#define REGARD_NAME "avx2"
#define REGARD_AVX2

namespace regard {
namespace avx2 {
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
}  // namespace avx2

const Kernels* avx2_kernels() { return &avx2::TABLE; }
}  // namespace regard
#else
namespace regard {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace regard
#endif
