// x86 with AVX-512, its byte products (VNNI), and a unit for products of matrices of bytes (AMX). Built with -mavx512f
// -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mamx-tile -mamx-int8.
#include "kernels.h"

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__AVX512VNNI__) && \
    defined(__AMX_TILE__) && defined(__AMX_INT8__)
#include <immintrin.h>

#define REGARD_LANES 16
#define REGARD_NAME "amx_int8"
#define REGARD_AVX512
#define REGARD_AMX

namespace regard {
namespace amx {
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
}  // namespace amx

const Kernels* amx_kernels() { return &amx::TABLE; }
}  // namespace regard
#else
namespace regard {
const Kernels* amx_kernels() { return nullptr; }
}  // namespace regard
#endif
