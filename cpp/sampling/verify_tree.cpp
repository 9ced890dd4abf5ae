#include "sampling/verify_tree.h"

namespace specdec::sampling {

std::vector<int> path_to(const DraftTree& tree, int last) {
  std::vector<int> path;
  for (int node = last; node >= 0; node = tree.parents[idx(node)]) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace specdec::sampling
