#include "sampling/kernels.h"

#include "base/isa.h"

namespace specdec::sampling {

const std::vector<const RowLoops*>& all_row_loops() {
  static const std::vector<const RowLoops*> list = {
#if defined(SPECDEC_HAS_ROW_LOOPS_AVX512)
      &row_loops_avx512,
#endif
#if defined(SPECDEC_HAS_ROW_LOOPS_AVX2)
      &row_loops_avx2,
#endif
      &row_loops_scalar,
  };
  return list;
}

const RowLoops& row_loops() {
  static const RowLoops& chosen = pick(all_row_loops());
  return chosen;
}

}  // namespace specdec::sampling
