// Finds the bundled models.
#pragma once

#include <string>
#include <vector>

namespace specdec {

struct ModelPair {
  std::string target, draft;  // paths
};

// The bundled pair in the first folder that contains it. Throws ModelError naming the folders searched.
ModelPair find_bundled_pair(const std::vector<std::string>& folders);

}  // namespace specdec
