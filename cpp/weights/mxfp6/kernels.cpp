#include "weights/mxfp6/kernels.h"

#include "base/isa.h"

namespace specdec::mxfp6 {

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> list = {
#if defined(SPECDEC_HAS_MATMUL_AVX512_VNNI_VBMI)
      &kernels_avx512_vnni_vbmi,
#endif
#if defined(SPECDEC_HAS_MATMUL_AVX_VNNI)
      &kernels_avx_vnni,
#endif
#if defined(SPECDEC_HAS_MATMUL_AVX512VL_VNNI)
      &kernels_avx512vl_vnni,
#endif
#if defined(SPECDEC_HAS_MATMUL_AVX2)
      &kernels_avx2,
#endif
#if defined(__aarch64__)
      &kernels_neon_dotprod,
#endif
      &kernels_scalar,
  };
  return list;
}

const std::vector<const CalibrationLoops*>& all_calibration_loops() {
  static const std::vector<const CalibrationLoops*> list = {
#if defined(SPECDEC_HAS_CALIBRATION_LOOPS_AVX2)
      &calibration_loops_avx2,
#endif
      &calibration_loops_scalar,
  };
  return list;
}

const CalibrationLoops& calibration_loops() {
  static const CalibrationLoops& chosen = pick(all_calibration_loops());
  return chosen;
}

}  // namespace specdec::mxfp6
