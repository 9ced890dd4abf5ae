// Experts' matrices that a PieceCache holds: a pass reads those that its router has chosen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "base/index.h"
#include "streaming/piece_cache.h"

namespace specdec {

// The router of the next layer, asked about the state before this one's experts: a good guess, since a layer changes
// its input little. It changes time only.
struct NextRouter {
  static constexpr std::int64_t most_tokens = 8;  // of a pass; more choose nearly all experts

  const float* weights;  // [num_experts][width]
  std::int64_t width, num_experts;
  int num_chosen;                 // for a token
  std::vector<int> first_pieces;  // of expert 0 in each of the next layer's matrices

  // Adds the pieces of the experts with the largest products with this state, [width].
  void guess(const float* state, std::vector<float>& scores, std::vector<int>& pieces) const;
};

// What the matrices of a layer share.
struct ExpertLayer {
  std::vector<int> first_pieces;  // of expert 0 in each matrix
  const NextRouter* next = nullptr;
  std::vector<int> guessed;  // pieces of the next layer
};

struct CachedExperts {
  CachedExperts(PieceCache& of_cache, int first_piece, std::int64_t num_experts, ExpertLayer& of_layer)
      : cache(&of_cache), first(first_piece), layer(&of_layer) {
    chosen.reserve(idx(num_experts));
  }

  // On one thread, before any expert is used in an operation. is_chosen(expert): whether it is. Each is taken by as
  // many threads as num_takers says, in order. state(token): [width of the next router], of the first num_states
  // tokens, or none.
  template <class IsChosen, class State>
  void begin(std::int64_t num_experts, int num_takers, const IsChosen& is_chosen, std::int64_t num_states,
             const State& state) const {
    chosen.clear();
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      if (is_chosen(expert)) chosen.push_back(first + static_cast<int>(expert));
    }
    cache->begin(chosen, num_takers);
    try {
      expect_next(num_states, state);
    } catch (const std::bad_alloc&) {  // it is only a guess
    }
  }
  const std::uint8_t* take(std::int64_t expert) const noexcept { return cache->take(first + static_cast<int>(expert)); }
  void give_back(std::int64_t expert) const noexcept { cache->give_back(first + static_cast<int>(expert)); }

  PieceCache* cache;
  int first;  // the cache's piece of expert 0
  ExpertLayer* layer;
  mutable std::vector<int> chosen, expected;  // memory of begin()
  mutable std::vector<float> scores;

 private:
  // The same experts of the layer's other matrices, and what the next layer's router guesses.
  template <class State>
  void expect_next(std::int64_t num_states, const State& state) const {
    if (layer->next != nullptr && num_states > 0) {
      layer->guessed.clear();
      for (std::int64_t token = 0; token < std::min(num_states, NextRouter::most_tokens); ++token)
        layer->next->guess(state(token), scores, layer->guessed);
    }
    expected.clear();
    for (const int other : layer->first_pieces) {
      for (const int piece : chosen) expected.push_back(piece - first + other);
    }
    expected.insert(expected.end(), layer->guessed.begin(), layer->guessed.end());
    cache->expect(expected);
  }
};

}  // namespace specdec
