// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011): a keyed bijection of 128-bit counters. It has no state, so rolling back needs no bookkeeping.
#pragma once

#include <array>
#include <cstdint>

namespace specdec::sampling {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;  // the golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

// Uniform in [0, 1), a multiple of 2^-53: 0 occurs, 1 does not.
constexpr double uniform53(std::uint32_t high, std::uint32_t low) noexcept {
  return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

}  // namespace specdec::sampling
