// Detects the CPU's features. Every kernel declares the features it needs; only these decide whether it may run.
#pragma once

#include <cstdint>

namespace specdec {

using CpuFeatures = std::uint32_t;  // a set of the bits below

namespace cpu {

constexpr CpuFeatures avx2 = 1u << 0, fma = 1u << 1, f16c = 1u << 2, bmi2 = 1u << 3;
constexpr CpuFeatures avx_vnni = 1u << 4;
constexpr CpuFeatures avx512f = 1u << 5, avx512dq = 1u << 6, avx512bw = 1u << 7, avx512vl = 1u << 8;
constexpr CpuFeatures avx512_vnni = 1u << 9, avx512_vbmi = 1u << 10;
constexpr CpuFeatures neon = 1u << 11, dotprod = 1u << 12, i8mm = 1u << 13;

}  // namespace cpu

// The features of this CPU whose registers the operating system saves (XCR0). Detected once.
CpuFeatures cpu_features() noexcept;

}  // namespace specdec
