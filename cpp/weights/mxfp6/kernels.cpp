#include "weights/mxfp6/kernels.h"

namespace specdec::mxfp6 {

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> list = {
#if defined(__x86_64__)
      &kernels_avx512_vnni_vbmi,
#if defined(SPECDEC_HAS_AVX_VNNI)
      &kernels_avx_vnni,
#endif
      &kernels_avx512vl_vnni,    &kernels_avx2,
#elif defined(__aarch64__)
      &kernels_neon_dotprod,
#endif
      &kernels_scalar,
  };
  return list;
}

}  // namespace specdec::mxfp6
