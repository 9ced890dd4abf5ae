// Experts' matrices that a PieceCache holds: a pass reads those that its router has chosen.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "streaming/piece_cache.h"

namespace specdec {

struct CachedExperts {
  CachedExperts(PieceCache& of_cache, int first_piece, std::int64_t num_experts)
      : cache(&of_cache), first(first_piece) {
    chosen.reserve(idx(num_experts));
  }

  // On one thread, before any expert is used in an operation. is_chosen(expert): whether it is; each is taken by as
  // many threads as num_takers says, in order.
  template <class IsChosen>
  void begin(std::int64_t num_experts, int num_takers, const IsChosen& is_chosen) const {
    chosen.clear();
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      if (is_chosen(expert)) chosen.push_back(first + static_cast<int>(expert));
    }
    cache->begin(chosen, num_takers);
    expected.clear();
    for (const CachedExperts* follower : followers) {
      for (const int piece : chosen) expected.push_back(piece - first + follower->first);
    }
    cache->expect(expected);
  }
  const std::uint8_t* take(std::int64_t expert) const noexcept { return cache->take(first + static_cast<int>(expert)); }
  void give_back(std::int64_t expert) const noexcept { cache->give_back(first + static_cast<int>(expert)); }

  PieceCache* cache;
  int first;                                    // the cache's piece of expert 0
  std::vector<const CachedExperts*> followers;  // of the same layer, whose operations come later
  mutable std::vector<int> chosen, expected;    // memory of begin()
};

}  // namespace specdec
