// x86 with AVX-512 and its products of bfloat16. Built with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16.
#include "kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__AVX512BF16__)
#include <immintrin.h>

#define REGARD_LANES 16
#define REGARD_NAME "avx512_bf16"
#define REGARD_AVX512
#define REGARD_BFLOAT16

namespace regard {
namespace avx512_bf16 {
#include "lanes.h"
#include "rows.h"
#include "attention.h"
#include "agreement.h"
#include "search.h"
#include "steps.h"
#include "half_pairs.h"
#include "half_attention.h"
#include "half_tiles.h"
#include "half_products.h"
#include "half_loss.h"
#include "table.h"
}  // namespace avx512_bf16

const Kernels* avx512_bf16_kernels() { return &avx512_bf16::TABLE; }
}  // namespace regard
#else
namespace regard {
const Kernels* avx512_bf16_kernels() { return nullptr; }
}  // namespace regard
#endif
