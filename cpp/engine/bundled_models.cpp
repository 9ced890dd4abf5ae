#include "engine/bundled_models.h"

#include <filesystem>

#include "base/error.h"

namespace specdec {

ModelPair find_bundled_pair(const std::vector<std::string>& folders) {
  std::string searched;
  for (const std::string& folder : folders) {
    const std::filesystem::path path(folder);
    const std::filesystem::path target = path / "stdlib-target-f16.gguf", draft = path / "stdlib-draft-f16.gguf";
    std::error_code ignored;
    if (std::filesystem::exists(target, ignored) && std::filesystem::exists(draft, ignored))
      return {target.string(), draft.string()};
    searched += (searched.empty() ? "" : ", ") + folder;
  }
  throw ModelError("no model was given, and the bundled pair was not found in: " + searched +
                   ". Give a GGUF file (-m, target=)");
}

}  // namespace specdec
