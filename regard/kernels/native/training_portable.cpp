// Any processor that the compiler knows: vectors of four floats, which every common one has.
#include "kernels.h"

#define REGARD_LANES 4
#define REGARD_NAME "portable"

namespace regard {
namespace portable {
#include "lanes.h"
#include "rows.h"
#include "attention.h"
#include "agreement.h"
#include "search.h"
#include "steps.h"
#include "table.h"
}  // namespace portable

const Kernels* portable_kernels() { return &portable::TABLE; }
}  // namespace regard
