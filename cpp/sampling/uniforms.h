// Where every random number of a generation comes from, named by what it decides: results do not depend on threads,
// on rewinds, or on how many numbers were used before.
#pragma once

#include <cstdint>

#include "sampling/philox.h"

namespace specdec::sampling {

// draft: draws the drafted token of a place. accept: decides on it. next: draws the last token of a cycle, that is
// the correction token or the bonus token.
enum class Purpose : std::uint32_t { draft = 0, accept = 1, next = 2 };

class UniformSource {
 public:
  virtual ~UniformSource() = default;
  // In [0, 1). position: index of the first token of the cycle; place: 0..K within it.
  virtual double uniform(std::int64_t position, int place, Purpose purpose) const = 0;
};

// The key is the seed. The counter is (position, low; position, high; place and purpose; request): two different
// arguments never share a counter while request, of 64 bits, and position are below 2^32, and place below 2^30.
class PhiloxUniforms final : public UniformSource {
 public:
  PhiloxUniforms(std::uint64_t seed, std::uint64_t request) noexcept : seed_(seed), request_(request) {}

  double uniform(std::int64_t position, int place, Purpose purpose) const noexcept override {
    const auto index = static_cast<std::uint64_t>(position);
    const PhiloxCounter counter = {low(index), high(index) ^ high(request_),
                                   static_cast<std::uint32_t>(place) << 2 | static_cast<std::uint32_t>(purpose),
                                   low(request_)};
    const PhiloxCounter words = philox4x32(counter, {low(seed_), high(seed_)});
    return uniform53(words[0], words[1]);
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t bits) noexcept { return static_cast<std::uint32_t>(bits); }
  static constexpr std::uint32_t high(std::uint64_t bits) noexcept { return static_cast<std::uint32_t>(bits >> 32); }

  std::uint64_t seed_, request_;
};

}  // namespace specdec::sampling
