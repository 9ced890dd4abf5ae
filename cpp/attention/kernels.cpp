#include "attention/kernels.h"

namespace specdec::attention {

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> list = {
#if defined(__x86_64__)
      &kernels_avx512_vnni,
#if defined(SPECDEC_HAS_AVX_VNNI)
      &kernels_avx_vnni,
#endif
      &kernels_avx2,
#elif defined(__aarch64__)
      &kernels_neon_dotprod,
#endif
      &kernels_scalar,
  };
  return list;
}

}  // namespace specdec::attention
