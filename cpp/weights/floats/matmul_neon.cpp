// NEON kernels: vectors of four floats.
#include <arm_neon.h>

#include "weights/floats/matmul.h"

namespace specdec::floats {
namespace {

using Vector = float32x4_t;
constexpr int width = 4;
struct Sum {
  Vector part[4];
};
constexpr int tile_columns = 3;
// At most 24 vectors of sums in 32 registers.
constexpr int rows_at_once(int columns) { return columns == 1 ? 4 : columns == 2 ? 3 : 2; }

inline Vector zero() { return vdupq_n_f32(0.0f); }
inline Vector load(const float* x) { return vld1q_f32(x); }
inline Vector load_f16(const std::uint16_t* x) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x))); }
inline Vector load_bf16(const std::uint16_t* x) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x), 16)); }
inline Vector fused(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }

inline Vector fold(const Sum& s) { return vaddq_f32(vaddq_f32(s.part[0], s.part[2]), vaddq_f32(s.part[1], s.part[3])); }
// Adds the halves of a and those of b.
inline Vector fold_halves(Vector a, Vector b) {
  return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)), vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
}
inline void store_totals(const Sum& a, const Sum& b, const Sum& c, const Sum& d, float* out) {
  vst1q_f32(out, vpaddq_f32(fold_halves(fold(a), fold(b)), fold_halves(fold(c), fold(d))));
}

#include "weights/floats/matmul_kernel.h"

}  // namespace

const Kernels kernels_neon = {"neon", cpu::neon, tile_columns, matmul};

}  // namespace specdec::floats
