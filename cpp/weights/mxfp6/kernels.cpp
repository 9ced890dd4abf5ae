#include "weights/mxfp6/kernels.h"

namespace specdec::mxfp6 {

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> list = {
#if defined(__x86_64__)
      &avx512_vnni_vbmi_kernels,
#if defined(SPECDEC_HAS_AVX_VNNI)
      &avx_vnni_kernels,
#endif
      &avx512vl_vnni_kernels,    &avx2_kernels,
#elif defined(__aarch64__)
      &neon_dotprod_kernels,
#endif
      &scalar_kernels,
  };
  return list;
}

}  // namespace specdec::mxfp6
