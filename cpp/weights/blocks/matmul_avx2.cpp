// AVX2 kernels. maddubs multiplies unsigned by signed bytes into int16 pair sums, saturating:
//   codes of at most 6 bits, stored as code - lowest: a pair reaches (highest - lowest) * 127 * 2, at most 63 * 254 =
//   16002, and as many pairs are added in int16 as fit; codes of 8 bits: |code| times the activation with the code's
//   sign; |code| <= 128 and |activation| <= 127, so that a pair reaches 32512.
#include <immintrin.h>

#include "weights/blocks/grids.h"
#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

#define SPECDEC_INLINE inline __attribute__((always_inline))

#include "weights/blocks/vectors_256.h"

constexpr int repeats_in_registers = 4;  // products take longer than decoding
constexpr int slow_repeats_in_registers = 1;

template <Type type>
constexpr bool signed_bytes = format_of(type).highest > 63;

// Pair sums of int16 that can be added without overflow, for codes of 0 to `span`.
constexpr int power_of_two_up_to(int n) { return n < 2 ? n : 2 * power_of_two_up_to(n / 2); }
template <Type type>
constexpr int pairs_that_fit(int span) {
  return signed_bytes<type> ? 1 : power_of_two_up_to(32767 / (span * 127 * 2));
}
static_assert(128 * 127 * 2 <= 32767);

// sums + factors[v] * the products of a group; a factor is the same in both int16 of a row.
template <Type type, int C, class Weights>
SPECDEC_INLINE void add_group(const Weights& weights, const PanelBlock* x, int group, const __m256i (&factors)[2],
                              Ints (&sums)[C][2]) {
  constexpr int fours = format_of(type).group / 4, fit = pairs_that_fit<type>(Weights::span),
                step = fit < fours ? fit : fours;
#pragma GCC unroll 8
  for (int first = 0; first < fours; first += step) {
    __m256i words[C][2];
#pragma GCC unroll 8
    for (int i = first; i < first + step; ++i) {
      const __m256i w[2] = {weights.codes(group * fours + i, 0), weights.codes(group * fours + i, 1)};
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        std::int32_t four;
        __builtin_memcpy(&four, x[c].codes + group * format_of(type).group + 4 * i, sizeof four);
        const __m256i a = _mm256_set1_epi32(four);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          const __m256i pairs = signed_bytes<type>
                                    ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[v]), _mm256_sign_epi8(a, w[v]))
                                    : _mm256_maddubs_epi16(w[v], a);
          // Force evaluation here; otherwise the compiler reorders the sums and spills.
          if constexpr (step == 1) {
            sums[c][v] = _mm256_add_epi32(sums[c][v], _mm256_madd_epi16(pairs, factors[v]));
            __asm__("" : "+x"(sums[c][v]));
          } else {
            words[c][v] = i == first ? pairs : _mm256_add_epi16(words[c][v], pairs);
            __asm__("" : "+x"(words[c][v]));
          }
        }
      }
    }
    if constexpr (step == 1) continue;
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) sums[c][v] = _mm256_add_epi32(sums[c][v], _mm256_madd_epi16(words[c][v], factors[v]));
    }
  }
}

template <Type type, int C, class Weights>
SPECDEC_INLINE void group_sums(const Weights& weights, const PanelBlock* x, int group, Ints (&sums)[C][2]) {
  const __m256i factor = _mm256_set1_epi16(Weights::factor);
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) sums[c][v] = weights.start(x[c], group, v);
  }
  add_group<type, C>(weights, x, group, {factor, factor}, sums);
}

// Pair sums are widened by the scale codes instead of ones.
template <Type type, int C, class Weights>
SPECDEC_INLINE void scaled_sums(const Weights& weights, const PanelBlock* x, Ints (&sums)[C][2]) {
  const __m256i codes[2] = {weights.scale_codes(0), weights.scale_codes(1)};
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      sums[c][v] = format_of(type).lowest == 0 ? _mm256_setzero_si256()
                                               : pair_products(codes[v], _mm256_set1_epi32(x[c].corrections[1]));
    }
  }
  add_group<type, C>(weights, x, 0, {low_twice(codes[0]), low_twice(codes[1])}, sums);
  add_group<type, C>(weights, x, 1, {high_twice(codes[0]), high_twice(codes[1])}, sums);
}

constexpr bool multiplies_sums = true;
template <Type type>
constexpr std::int64_t folding_pays = INT64_MAX;  // it does not

#include "weights/blocks/matmul_x86.h"

}  // namespace

const Kernels kernels_avx2 = {"avx2", cpu::avx2 | cpu::fma | cpu::f16c, pack, matmul};

}  // namespace specdec::blocks
