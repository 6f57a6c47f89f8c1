// x86 with AVX-512, its products of bfloat16, and a unit for products of matrices of them (AMX). Built with -mavx512f
// -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mamx-tile -mamx-bf16.
#include "kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__AVX512BF16__) && defined(__AMX_TILE__) && defined(__AMX_BF16__)
#include <immintrin.h>

#define REGARD_LANES 16
#define REGARD_NAME "amx_bf16"
#define REGARD_AVX512
#define REGARD_BFLOAT16

namespace regard {
namespace amx_bf16 {
#include "lanes.h"
#include "rows.h"
#include "attention.h"
#include "agreement.h"
#include "search.h"
#include "steps.h"
#include "half_pairs.h"
#include "half_attention.h"
#include "half_matrices.h"
#include "half_products.h"
#include "half_loss.h"
#include "table.h"
}  // namespace amx_bf16

const Kernels* amx_bf16_kernels() { return &amx_bf16::TABLE; }
}  // namespace regard
#else
namespace regard {
const Kernels* amx_bf16_kernels() { return nullptr; }
}  // namespace regard
#endif
