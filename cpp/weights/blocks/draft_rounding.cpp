#include "weights/blocks/draft_rounding.h"

#include <cstring>

#include "base/half.h"

namespace specdec::blocks {
namespace {

void write_half(float x, std::uint8_t* to) {
  const std::uint16_t half = float_to_half(x);
  std::memcpy(to, &half, sizeof half);
}

// The weight with the largest magnitude; of equal ones the first.
float extreme(const float* x) {
  constexpr int n = 32, lanes = 8;  // lanes, so that compilers vectorize the comparisons without reordering them
  float highest[lanes], lowest[lanes];
  for (int lane = 0; lane < lanes; ++lane) highest[lane] = lowest[lane] = x[lane];
  for (int i = lanes; i < n; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      highest[lane] = x[i + lane] > highest[lane] ? x[i + lane] : highest[lane];
      lowest[lane] = x[i + lane] < lowest[lane] ? x[i + lane] : lowest[lane];
    }
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      highest[lane] = highest[lane + half] > highest[lane] ? highest[lane + half] : highest[lane];
      lowest[lane] = lowest[lane + half] < lowest[lane] ? lowest[lane + half] : lowest[lane];
    }
  }
  if (highest[0] != -lowest[0]) return highest[0] > -lowest[0] ? highest[0] : lowest[0];
  for (int i = 0; i < n; ++i) {
    if (__builtin_fabsf(x[i]) == highest[0] && highest[0] > 0.0f) return x[i];
  }
  return 0.0f;
}

// The extreme weight becomes -8, the others are rounded to the nearest multiple of d, ties upwards.
void round_q4_0(const float* x, std::int64_t blocks, std::uint8_t* to) {
  constexpr int n = 32;
  for (std::int64_t block = 0; block < blocks; ++block, x += n, to += format_of(Type::q4_0).bytes) {
    const float d = extreme(x) / -8.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    write_half(d, to);
    std::int32_t codes[n];
    for (int i = 0; i < n; ++i) {
      const auto code = static_cast<std::int32_t>(x[i] * inverse + 8.5f);
      codes[i] = code < 15 ? code : 15;
    }
    for (int i = 0; i < n / 2; ++i)
      to[2 + i] = static_cast<std::uint8_t>((codes[i] & 15) | (codes[n / 2 + i] & 15) << 4);
  }
}

// d is the mean magnitude, summed in order. Processes four blocks at a time, because their sums do not wait for each
// other.
template <int at_once>
void round_q1_0(const float* x, std::uint8_t* to) {
  constexpr int n = 128, words = n / 32;
  float sums[at_once] = {};
  for (int i = 0; i < n; ++i) {
    for (int block = 0; block < at_once; ++block) sums[block] += __builtin_fabsf(x[block * n + i]);
  }
  for (int block = 0; block < at_once; ++block, x += n, to += format_of(Type::q1_0).bytes) {
    write_half(sums[block] / n, to);
    for (int word = 0; word < words; ++word) {
      std::uint32_t bits = 0;
      for (int i = 0; i < 32; ++i) bits |= x[32 * word + i] >= 0.0f ? 1u << i : 0u;
      std::memcpy(to + 2 + 4 * word, &bits, sizeof bits);
    }
  }
}

}  // namespace

void round_rows(Type type, const float* x, std::int64_t rows, std::int64_t k, std::uint8_t* to) noexcept {
  const Format& format = format_of(type);
  std::int64_t blocks = rows * (k / format.columns);
  if (type == Type::q4_0) return round_q4_0(x, blocks, to);
  for (; blocks >= 4; blocks -= 4, x += 4 * format.columns, to += 4 * format.bytes) round_q1_0<4>(x, to);
  for (; blocks > 0; --blocks, x += format.columns, to += format.bytes) round_q1_0<1>(x, to);
}

}  // namespace specdec::blocks
