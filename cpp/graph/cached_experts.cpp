#include "graph/cached_experts.h"

#include <limits>
#include <numeric>

namespace specdec {

void NextRouter::guess(const float* state, std::vector<float>& scores, std::vector<int>& pieces) const {
  constexpr std::int64_t lanes = 16;  // sums that the compiler can keep in vectors
  scores.resize(idx(num_experts));
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    const float* const row = weights + expert * width;
    float sums[lanes] = {};
    for (std::int64_t i = 0; i + lanes <= width; i += lanes) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += row[i + lane] * state[i + lane];
    }
    scores[idx(expert)] = std::accumulate(sums, sums + lanes, 0.0f);
  }
  for (int i = 0; i < num_chosen; ++i) {
    const auto best = std::max_element(scores.begin(), scores.end());
    const auto expert = static_cast<int>(best - scores.begin());
    for (const int first : first_pieces) pieces.push_back(first + expert);
    *best = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace specdec
