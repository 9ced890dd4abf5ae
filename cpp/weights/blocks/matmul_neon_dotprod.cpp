// ARM kernels with the dot product instructions of ARMv8.2.
#include <arm_neon.h>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#include "weights/blocks/vectors_neon.h"

SPECDEC_INLINE Ints add_products(Ints sum, Codes w, Ints a) { return vdotq_s32(sum, w, vreinterpretq_s8_s32(a)); }

#include "weights/blocks/dot_products.h"
#include "weights/blocks/dot_products_neon.h"
#include "weights/blocks/matmul_kernel.h"

}  // namespace

// pack_scalar is fast enough: few activations are packed for many weights.
const Kernels kernels_neon_dotprod = {"neon_dotprod", cpu::neon | cpu::dotprod, pack_scalar, matmul};

}  // namespace specdec::blocks
