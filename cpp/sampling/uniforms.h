// The random numbers of a generation, each identified by the decision that it is used for. So results do not depend on
// threads, on rollbacks, or on how many numbers were used before.
#pragma once

#include <cstdint>

#include "sampling/philox.h"

namespace specdec::sampling {

// draft: draws the drafted token of a place. accept: accepts or rejects it. next: draws the last token of a cycle (the
// correction or bonus token). gumbel: the noise of the drafter-invariant mode, see gumbel_max.h. xtc: whether the rows
// of a position leave out their top choices; position is the token's own index and place is 0, in any cycle. The
// enumerator's value is that of `next` at place 1, which is free because `next` only has place 0.
enum class Purpose : std::uint32_t { draft = 0, accept = 1, next = 2, gumbel = 3, xtc = 6 };

enum class GumbelBits : std::uint32_t { high = 0, low = 1 };

// An interface, so that tests enumerate every outcome.
class UniformSource {
 public:
  virtual ~UniformSource() = default;
  // In [0, 1). position: index of the first token of the cycle; place: 0..K within it.
  virtual double uniform(std::int64_t position, int place, Purpose purpose) const = 0;
  // Noise for gumbel_max() at an index of the sequence, the same in any cycle: 32 bits for each of the tokens 4 * group
  // .. 4 * group + 3.
  virtual PhiloxCounter gumbel_bits(std::int64_t position, std::int32_t group, GumbelBits half) const = 0;
};

// The key is the seed. The counter is (low half of position; its high half; place and purpose; request): different
// arguments never share a counter while request (64 bits) and position are below 2^32 and place is below 2^30.
// For gumbel_bits, place is 2 * group + half.
class PhiloxUniforms final : public UniformSource {
 public:
  PhiloxUniforms(std::uint64_t seed, std::uint64_t request) noexcept : seed_(seed), request_(request) {}

  double uniform(std::int64_t position, int place, Purpose purpose) const noexcept override {
    const PhiloxCounter bits = words(position, static_cast<std::uint32_t>(place), purpose);
    return uniform53(bits[0], bits[1]);
  }

  PhiloxCounter gumbel_bits(std::int64_t position, std::int32_t group, GumbelBits half) const noexcept override {
    return words(position, static_cast<std::uint32_t>(group) << 1 | static_cast<std::uint32_t>(half), Purpose::gumbel);
  }

 private:
  PhiloxCounter words(std::int64_t position, std::uint32_t place, Purpose purpose) const noexcept {
    const auto index = static_cast<std::uint64_t>(position);
    const PhiloxCounter counter = {low(index), high(index) ^ high(request_),
                                   place << 2 | static_cast<std::uint32_t>(purpose), low(request_)};
    return philox4x32(counter, {low(seed_), high(seed_)});
  }

  static constexpr std::uint32_t low(std::uint64_t bits) noexcept { return static_cast<std::uint32_t>(bits); }
  static constexpr std::uint32_t high(std::uint64_t bits) noexcept { return static_cast<std::uint32_t>(bits >> 32); }

  std::uint64_t seed_, request_;
};

}  // namespace specdec::sampling
