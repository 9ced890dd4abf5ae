// The models of a folder, as `specdec serve --models-dir` offers them.
#pragma once

#include <string>
#include <vector>

#include "server/model_pool.h"

namespace specdec::cli {

// As llama-server has them: each file FOLDER/NAME.gguf, and each folder FOLDER/NAME with a model in it; of a model in
// several parts, the first. Projectors (mmproj...) are no models. In alphabetical order. "hub": those of the hub's
// cache, as OWNER/REPOSITORY/FILE without ".gguf". Throws Error.
std::vector<server::KnownModel> models_in(const std::string& folder);

}  // namespace specdec::cli
