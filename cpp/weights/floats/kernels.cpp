#include "weights/floats/kernels.h"

namespace specdec::floats {

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> list = {
#if defined(SPECDEC_HAS_MATMUL_AVX512)
      &kernels_avx512,
#endif
#if defined(SPECDEC_HAS_MATMUL_AVX2)
      &kernels_avx2,
#endif
#if defined(__aarch64__)
      &kernels_neon,
#endif
      &kernels_scalar,
  };
  return list;
}

}  // namespace specdec::floats
