// The peak rate of multiply-adds of an instruction set: loops of more independent operations than latency times
// throughput. Each function runs for a fraction of a millisecond and returns the number of operations; 0 for unknown
// instruction sets.
#pragma once

#include <cstdint>
#include <string>
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace bench {

constexpr std::int64_t peak_loops = 1 << 13;

#if defined(__x86_64__)
#define TWELVE_CHAINS(op, r)                                                                                         \
  op " %%" r "12, %%" r "13, %%" r "0\n\t" op " %%" r "12, %%" r "13, %%" r "1\n\t" op " %%" r "12, %%" r "13, %%" r \
     "2\n\t" op " %%" r "12, %%" r "13, %%" r "3\n\t" op " %%" r "12, %%" r "13, %%" r "4\n\t" op " %%" r "12, %%" r \
     "13, %%" r "5\n\t" op " %%" r "12, %%" r "13, %%" r "6\n\t" op " %%" r "12, %%" r "13, %%" r "7\n\t" op " %%" r \
     "12, %%" r "13, %%" r "8\n\t" op " %%" r "12, %%" r "13, %%" r "9\n\t" op " %%" r "12, %%" r "13, %%" r         \
     "10\n\t" op " %%" r "12, %%" r "13, %%" r "11\n\t"
#define RUN(text)                                                                                                 \
  for (std::int64_t i = 0; i < peak_loops; ++i)                                                                   \
  __asm__ volatile(text ::                                                                                        \
                       : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                         "xmm11", "xmm12", "xmm13")

// The values of the operands do not matter, except that denormal f32 numbers would be slow.
inline std::int64_t f32_multiply_adds(const std::string& isa) {
  __asm__ volatile("vpxor %%xmm12, %%xmm12, %%xmm12\n\tvpxor %%xmm13, %%xmm13, %%xmm13" ::: "xmm12", "xmm13");
  if (isa.rfind("avx512", 0) == 0) {
    RUN(TWELVE_CHAINS("vfmadd231ps", "zmm"));
    return peak_loops * 12 * 16;
  }
  if (isa.rfind("avx", 0) != 0) return 0;
  RUN(TWELVE_CHAINS("vfmadd231ps", "ymm"));
  return peak_loops * 12 * 8;
}

inline std::int64_t int8_multiply_adds(const std::string& isa) {
  if (isa == "avx512_vnni_vbmi") {
    RUN(TWELVE_CHAINS("vpdpbusd", "zmm"));
    return peak_loops * 12 * 64;
  }
  if (isa == "avx512vl_vnni") {
    RUN(TWELVE_CHAINS("vpdpbusd", "ymm"));
    return peak_loops * 12 * 32;
  }
  if (isa == "avx_vnni") {
    RUN(TWELVE_CHAINS("%{vex%} vpdpbusd", "ymm"));
    return peak_loops * 12 * 32;
  }
  if (isa != "avx2") return 0;
  // The AVX2 unit of 32 multiply-adds is maddubs, madd, add; six of them in flight.
#define UNITS(a, b, c)                                                                                                \
  "vpmaddubsw %%ymm12, %%ymm13, %%ymm" b "\n\tvpmaddwd %%ymm12, %%ymm" b ", %%ymm" b "\n\tvpaddd %%ymm" b ", %%ymm" a \
  ", %%ymm" a "\n\t" c
  RUN(UNITS("0", "6", UNITS("1", "7", UNITS("2", "8", UNITS("3", "9", UNITS("4", "10", UNITS("5", "11", "")))))));
#undef UNITS
  return peak_loops * 6 * 32;
}
#undef TWELVE_CHAINS
#undef RUN

#elif defined(__aarch64__)
inline std::int64_t f32_multiply_adds(const std::string& isa) {
  if (isa != "neon_dotprod") return 0;
  float32x4_t sum[12];
  const float32x4_t a = vdupq_n_f32(3), b = vdupq_n_f32(5);
  for (auto& s : sum) s = vdupq_n_f32(0);
  for (std::int64_t i = 0; i < peak_loops; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) {
      s = vfmaq_f32(s, a, b);
      __asm__ volatile("" : "+w"(s));
    }
  }
  return peak_loops * 12 * 4;
}
__attribute__((target("+dotprod"))) inline std::int64_t int8_multiply_adds(const std::string& isa) {
  if (isa != "neon_dotprod") return 0;
  int32x4_t sum[12];
  const int8x16_t a = vdupq_n_s8(3), b = vdupq_n_s8(5);
  for (auto& s : sum) s = vdupq_n_s32(0);
  for (std::int64_t i = 0; i < peak_loops; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) {
      s = vdotq_s32(s, a, b);
      __asm__ volatile("" : "+w"(s));
    }
  }
  return peak_loops * 12 * 16;
}
#else
inline std::int64_t f32_multiply_adds(const std::string&) { return 0; }
inline std::int64_t int8_multiply_adds(const std::string&) { return 0; }
#endif

}  // namespace bench
