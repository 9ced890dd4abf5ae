// Compiled for the instructions that every CPU of the architecture has.
#include "sampling/exponential.h"
#include "sampling/row_loops.h"

namespace specdec::sampling {
namespace {

#include "sampling/row_loops_body.h"

}  // namespace

extern const RowLoops row_loops_scalar = {"scalar", 0, f32, f64, exponentials, divide, rough_mass};

}  // namespace specdec::sampling
