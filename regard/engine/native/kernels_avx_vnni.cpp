// x86 with AVX2 and the byte products of AVX-VNNI (from 2021 on). Built with -mavx2 -mfma -mavxvnni.
//
// A build with REGARD_TEST_VNNI_256 uses the same instruction as AVX-512 spells it, so that these tiles can be tested on
// processors that have only that.
#include "kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && (defined(__AVXVNNI__) || defined(REGARD_TEST_VNNI_256))
#include <immintrin.h>

#define REGARD_LANES 8
#define REGARD_NAME "avx_vnni"
#define REGARD_AVX2
#define REGARD_AVX_VNNI
#if defined(REGARD_TEST_VNNI_256)
#define REGARD_DOT256 _mm256_dpbusd_epi32
#else
#define REGARD_DOT256 _mm256_dpbusd_avx_epi32
#endif

namespace regard {
namespace avx_vnni {
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
}  // namespace avx_vnni

const Kernels* avx_vnni_kernels() { return &avx_vnni::TABLE; }
}  // namespace regard
#else
namespace regard {
const Kernels* avx_vnni_kernels() { return nullptr; }
}  // namespace regard
#endif
