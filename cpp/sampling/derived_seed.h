// Derives the seeds of many texts from one.
#pragma once

#include <cstdint>

#include "sampling/philox.h"

namespace specdec::sampling {

// The seed of text `index` in a batch with `seed`: the first text gets that seed itself, the others get Philox words of
// (seed, index), so that batches with different seeds share no text. The counter's high words are outside
// PhiloxUniforms' range.
constexpr std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t index) noexcept {
  if (index == 0) return seed;
  const PhiloxCounter words =
      philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0xffffffff, 0xffffffff},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return std::uint64_t{words[1]} << 32 | words[0];
}

}  // namespace specdec::sampling
