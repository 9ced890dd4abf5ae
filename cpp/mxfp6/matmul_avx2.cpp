// AVX2 kernels.
#include <immintrin.h>

#include "mxfp6/matmul.h"

namespace specdec::mxfp6 {
extern const Kernels avx2_kernels = {"avx2", scalar_kernels.quantize, scalar_kernels.matmul, scalar_kernels.matmul_f32};
}  // namespace specdec::mxfp6
