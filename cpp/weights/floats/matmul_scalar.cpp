// Plain C++: the reference for the other kernels, and the fallback for CPUs without one.
#include <cstring>

#include "base/half.h"
#include "base/index.h"
#include "weights/floats/matmul.h"

namespace specdec::floats {
namespace {

using Vector = float;
constexpr int width = 1;
struct Sum {
  Vector part[lanes];
};
constexpr int tile_columns = 1;
constexpr int rows_at_once(int) { return 1; }

inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline Vector zero() { return 0.0f; }
inline Vector load(const float* x) { return *x; }
inline Vector load_f16(const std::uint16_t* x) { return half_to_float(*x); }
inline Vector load_bf16(const std::uint16_t* x) { return float_of(static_cast<std::uint32_t>(*x) << 16); }
inline Vector fused(Vector a, Vector b, Vector c) { return __builtin_fmaf(a, b, c); }

inline float total(Sum s) {
  for (int h = lanes / 2; h > 0; h /= 2) {
    for (int i = 0; i < h; ++i) s.part[i] += s.part[i + h];
  }
  return s.part[0];
}
inline void store_totals(const Sum& a, const Sum& b, const Sum& c, const Sum& d, float* out) {
  const Sum* sums[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) out[i] = total(*sums[i]);
}

#include "weights/floats/matmul_kernel.h"

}  // namespace

const Kernels kernels_scalar = {"scalar", 0, tile_columns, matmul};

void pack(const Kernels& kernels, const float* x, std::int64_t n, std::int64_t k, std::int64_t column,
          std::int64_t block_begin, std::int64_t block_end, float* panel) noexcept {
  const Groups groups(n, kernels.panel_width);
  const std::int64_t group = groups.of_column(column), first = groups.first(group),
                     width = groups.first(group + 1) - first;
  float* to = panel + first * num_blocks(k) * lanes + (column - first) * lanes;
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    float* at = to + block * width * lanes;
    const std::int64_t left = k - block * lanes;
    if (left < lanes) std::memset(at, 0, lanes * sizeof(float));
    std::memcpy(at, x + block * lanes, idx(left < lanes ? left : lanes) * sizeof(float));
  }
}

}  // namespace specdec::floats
