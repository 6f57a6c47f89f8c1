// x86 with AVX2 and FMA (from 2013 on). Built with -mavx2 -mfma; run only where the processor has both.
#include "kernels.h"

#if defined(__AVX2__) && defined(__FMA__)

#define REGARD_LANES 8
#define REGARD_NAME "avx2"

namespace regard {
namespace avx2 {
#include "lanes.h"
#include "rows.h"
#include "attention.h"
#include "agreement.h"
#include "search.h"
#include "steps.h"
#include "table.h"
}  // namespace avx2

const Kernels* avx2_kernels() { return &avx2::TABLE; }
}  // namespace regard
#else
namespace regard {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace regard
#endif
