// Compiled for AVX2.
#include "sampling/exponential.h"
#include "sampling/row_loops.h"

namespace specdec::sampling {
namespace {

#include "sampling/row_loops_body.h"

}  // namespace

extern const RowLoops row_loops_avx2 = {"avx2", cpu::avx2, f32, f64, exponentials, divide, rough_mass};

}  // namespace specdec::sampling
