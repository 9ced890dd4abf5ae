// Where the models that ship with the product are.
#pragma once

#include <string>
#include <vector>

namespace specdec {

struct ModelPair {
  std::string target, draft;  // paths
};

// The bundled pair from the first folder that has it. Throws ModelError naming the folders searched.
ModelPair find_bundled_pair(const std::vector<std::string>& folders);

}  // namespace specdec
