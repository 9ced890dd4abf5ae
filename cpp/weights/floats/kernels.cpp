#include "weights/floats/kernels.h"

namespace specdec::floats {

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> list = {
#if defined(__x86_64__)
      &kernels_avx512,
      &kernels_avx2,
#elif defined(__aarch64__)
      &kernels_neon,
#endif
      &kernels_scalar,
  };
  return list;
}

}  // namespace specdec::floats
