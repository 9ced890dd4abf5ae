// The AVX-512 and VNNI instructions of cpp/weights/blocks in plain C++, included before a kernel file: its code, in all
// else the same, then runs on any CPU with AVX2.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

// Not inlined: compilers take minutes over kernels of unrolled loops of loops.
#define EMULATED static __attribute__((noinline, unused))

// Apart from the functions: argument-dependent lookup must not find these in addition to the kernels' own.
namespace emulated_registers {

struct Ints {
  std::int32_t lane[16];
};
struct Floats {
  float lane[16];
};

}  // namespace emulated_registers

namespace emulated {

using emulated_registers::Floats;
using emulated_registers::Ints;

// sum + the four products of unsigned bytes of w and signed bytes of a, modulo 2^32.
EMULATED std::int32_t dpbusd(std::int32_t sum, std::int32_t w, std::int32_t a) {
  auto total = static_cast<std::uint32_t>(sum);
  for (int i = 0; i < 4; ++i) {
    const int product = static_cast<std::uint8_t>(w >> (8 * i)) * static_cast<std::int8_t>(a >> (8 * i));
    total += static_cast<std::uint32_t>(product);
  }
  return static_cast<std::int32_t>(total);
}

template <class Out, class Function>
static inline Out each(Function f) {
  Out out;
  for (int i = 0; i < 16; ++i) out.lane[i] = f(i);
  return out;
}

EMULATED Ints load_ints(const void* p) {
  Ints v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
EMULATED Floats load_floats(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
EMULATED void store_floats(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }
EMULATED Ints set_ints(std::int32_t x) {
  return each<Ints>([&](int) { return x; });
}
EMULATED Floats set_floats(float x) {
  return each<Floats>([&](int) { return x; });
}
EMULATED Ints products(Ints sum, Ints w, Ints a) {
  return each<Ints>([&](int i) { return dpbusd(sum.lane[i], w.lane[i], a.lane[i]); });
}
EMULATED Floats to_floats(Ints v) {
  return each<Floats>([&](int i) { return static_cast<float>(v.lane[i]); });
}
EMULATED Floats multiply(Floats a, Floats b) {
  return each<Floats>([&](int i) { return a.lane[i] * b.lane[i]; });
}
EMULATED Floats fused(Floats a, Floats b, Floats c) {
  return each<Floats>([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
EMULATED void store_ints(void* p, Ints v) { std::memcpy(p, &v, sizeof v); }
EMULATED Ints both(Ints a, Ints b) {
  return each<Ints>([&](int i) { return a.lane[i] & b.lane[i]; });
}
EMULATED Ints either(Ints a, Ints b) {
  return each<Ints>([&](int i) { return a.lane[i] | b.lane[i]; });
}
EMULATED Ints one_of_both(Ints a, Ints b) {
  return each<Ints>([&](int i) { return a.lane[i] ^ b.lane[i]; });
}
EMULATED Ints right(Ints v, unsigned bits) {
  return each<Ints>([&](int i) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(v.lane[i]) >> bits); });
}
EMULATED Ints left(Ints v, unsigned bits) {
  return each<Ints>([&](int i) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(v.lane[i]) << bits); });
}
EMULATED Ints sums(Ints a, Ints b) {
  return each<Ints>([&](int i) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.lane[i]) + static_cast<std::uint32_t>(b.lane[i]));
  });
}
EMULATED Ints pair_sums(Ints a, Ints b) {
  return each<Ints>([&](int i) {
    const auto x = static_cast<std::uint32_t>(a.lane[i]), y = static_cast<std::uint32_t>(b.lane[i]);
    return static_cast<std::int32_t>(((x + y) & 0xFFFF) | ((x >> 16) + (y >> 16)) << 16);
  });
}
EMULATED Ints blended_pairs(std::uint32_t mask, Ints a, Ints b) {
  return each<Ints>([&](int i) {
    const std::uint32_t from_b = (mask >> (2 * i) & 1) * 0xFFFFu | (mask >> (2 * i + 1) & 1) * 0xFFFF0000u;
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(a.lane[i]) & ~from_b) |
                                     (static_cast<std::uint32_t>(b.lane[i]) & from_b));
  });
}
EMULATED Ints low_pair_products(Ints a, Ints b) {
  return each<Ints>([&](int i) {
    const auto x = static_cast<std::uint32_t>(a.lane[i]), y = static_cast<std::uint32_t>(b.lane[i]);
    return static_cast<std::int32_t>(((x & 0xFFFF) * (y & 0xFFFF) & 0xFFFF) | (x >> 16) * (y >> 16) << 16);
  });
}
EMULATED Ints with_zeros(__m128i v) {
  Ints out{};
  std::memcpy(&out, &v, sizeof v);
  return out;
}
EMULATED std::uint64_t byte_signs(Ints v) {
  std::uint8_t bytes[64];
  std::memcpy(bytes, &v, sizeof bytes);
  std::uint64_t signs = 0;
  for (int i = 0; i < 64; ++i) signs |= static_cast<std::uint64_t>(bytes[i] >> 7) << i;
  return signs;
}
EMULATED Ints blended(std::uint16_t mask, Ints a, Ints b) {
  return each<Ints>([&](int i) { return (mask >> i & 1) != 0 ? b.lane[i] : a.lane[i]; });
}
// The sum of the products of two int16.
EMULATED Ints pair_products(Ints a, Ints b) {
  const auto half = [](std::int32_t v, int i) { return static_cast<std::int16_t>(v >> (16 * i)); };
  return each<Ints>(
      [&](int i) { return half(a.lane[i], 0) * half(b.lane[i], 0) + half(a.lane[i], 1) * half(b.lane[i], 1); });
}
// By the low four bits of bytes whose top bit is clear, within 16 bytes.
EMULATED Ints shuffle(Ints table, Ints at) {
  std::uint8_t entries[64], places[64];
  std::memcpy(entries, &table, sizeof entries), std::memcpy(places, &at, sizeof places);
  for (int i = 0; i < 64; ++i) places[i] = places[i] >= 0x80 ? std::uint8_t{0} : entries[i / 16 * 16 + places[i] % 16];
  Ints out;
  std::memcpy(&out, places, sizeof out);
  return out;
}
EMULATED Ints four_times(__m128i v) {
  Ints out;
  for (int i = 0; i < 4; ++i) std::memcpy(out.lane + 4 * i, &v, sizeof v);
  return out;
}
EMULATED Floats halves_to_floats(__m256i v) {
  const __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(v)), high = _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1));
  Floats out;
  std::memcpy(out.lane, &low, sizeof low), std::memcpy(out.lane + 8, &high, sizeof high);
  return out;
}
EMULATED Ints bytes_to_ints(__m128i v) {
  const __m256i low = _mm256_cvtepi8_epi32(v), high = _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8));
  Ints out;
  std::memcpy(out.lane, &low, sizeof low), std::memcpy(out.lane + 8, &high, sizeof high);
  return out;
}
EMULATED Ints words_to_ints(__m256i v) {  // unsigned
  std::uint16_t words[16];
  std::memcpy(words, &v, sizeof words);
  return each<Ints>([&](int i) { return static_cast<std::int32_t>(words[i]); });
}
EMULATED Floats bits_of_floats(Ints v) {
  Floats out;
  std::memcpy(&out, &v, sizeof out);
  return out;
}
EMULATED __m256i products_256(__m256i sum, __m256i w, __m256i a) {
  std::int32_t s[8], x[8], y[8];
  std::memcpy(s, &sum, sizeof s), std::memcpy(x, &w, sizeof x), std::memcpy(y, &a, sizeof y);
  for (int i = 0; i < 8; ++i) s[i] = dpbusd(s[i], x[i], y[i]);
  std::memcpy(&sum, s, sizeof s);
  return sum;
}

}  // namespace emulated

#undef _mm512_srli_epi32  // without -O they are macros
#undef _mm512_slli_epi32
#undef _mm512_mask_blend_epi16
#define __m512i emulated_registers::Ints
#define __m512 emulated_registers::Floats
#define _mm512_loadu_si512 emulated::load_ints
#define _mm512_storeu_si512 emulated::store_ints
#define _mm512_and_si512 emulated::both
#define _mm512_or_si512 emulated::either
#define _mm512_xor_si512 emulated::one_of_both
#define _mm512_add_epi32 emulated::sums
#define _mm512_mullo_epi16 emulated::low_pair_products
#define _mm512_castsi128_si512 emulated::with_zeros
#define _mm512_movepi8_mask emulated::byte_signs
#define _mm512_mask_blend_epi32 emulated::blended
#define _mm512_add_epi16 emulated::pair_sums
#define _mm512_mask_blend_epi16 emulated::blended_pairs
#define _mm512_madd_epi16 emulated::pair_products
#define _mm512_srli_epi32 emulated::right
#define _mm512_slli_epi32 emulated::left
#define _mm512_shuffle_epi8 emulated::shuffle
#define _mm512_broadcast_i32x4 emulated::four_times
#define _mm512_cvtph_ps emulated::halves_to_floats
#define _mm512_cvtepi8_epi32 emulated::bytes_to_ints
#define _mm512_cvtepu16_epi32 emulated::words_to_ints
#define _mm512_castsi512_ps emulated::bits_of_floats
#define _mm512_loadu_ps emulated::load_floats
#define _mm512_storeu_ps emulated::store_floats
#define _mm512_set1_epi32 emulated::set_ints
#define _mm512_set1_ps emulated::set_floats
#define _mm512_dpbusd_epi32 emulated::products
#define _mm512_cvtepi32_ps emulated::to_floats
#define _mm512_mul_ps emulated::multiply
#define _mm512_fmadd_ps emulated::fused
#define _mm256_dpbusd_avx_epi32 emulated::products_256
