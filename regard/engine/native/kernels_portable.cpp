// Any processor that the compiler knows: vectors of four floats, which every common one has.
#include "kernels.h"

#define REGARD_LANES 4
#define REGARD_NAME "portable"

namespace regard {
namespace portable {
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
}  // namespace portable

const Kernels* portable_kernels() { return &portable::TABLE; }
}  // namespace regard
