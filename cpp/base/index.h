// Counts and places are signed in this code, because differences of them are; sizes of containers and of memory are
// unsigned. idx(i) converts a count or a place, which is never negative, to std::size_t: v[idx(i)],
// std::vector<float>(idx(n)), idx(n) * sizeof(float).
#pragma once

#include <cstddef>
#include <type_traits>

namespace specdec {

// Static, so that files for several instruction sets may include it.
template <class Signed>
static constexpr std::size_t idx(Signed i) noexcept {
  static_assert(std::is_integral_v<Signed> && std::is_signed_v<Signed>);
  return static_cast<std::size_t>(i);
}

}  // namespace specdec
