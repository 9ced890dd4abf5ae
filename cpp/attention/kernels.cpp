#include "attention/kernels.h"

namespace specdec::attention {

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> list = {
#if defined(SPECDEC_HAS_ATTENTION_AVX512_VNNI)
      &kernels_avx512_vnni,
#endif
#if defined(SPECDEC_HAS_ATTENTION_AVX_VNNI)
      &kernels_avx_vnni,
#endif
#if defined(SPECDEC_HAS_ATTENTION_AVX2)
      &kernels_avx2,
#endif
#if defined(__aarch64__)
      &kernels_neon_dotprod,
#endif
      &kernels_scalar,
  };
  return list;
}

}  // namespace specdec::attention
