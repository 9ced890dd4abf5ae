#include "sampling/verify_tree.h"

namespace specdec::sampling {

std::vector<int> path_to(const DraftTree& tree, int last) {
  std::vector<int> path;
  for (int node = last; node >= 0; node = tree.parents[idx(node)]) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

void detail::remove_token(Distribution& distribution, Token token) {
  double sum = 0.0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < distribution.tokens.size(); ++i) {
    if (distribution.tokens[i] == token) continue;
    distribution.tokens[count] = distribution.tokens[i];
    distribution.probs[count] = distribution.probs[i];
    sum += distribution.probs[i];
    ++count;
  }
  distribution.tokens.resize(count);
  distribution.probs.resize(count);
  for (double& prob : distribution.probs) prob /= sum;
}

}  // namespace specdec::sampling
