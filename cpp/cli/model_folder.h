// The models of a folder, for `specdec serve --models-dir`.
#pragma once

#include <string>
#include <vector>

#include "server/model_pool.h"

namespace specdec::cli {

// The same as in llama-server: each file FOLDER/NAME.gguf, and each folder FOLDER/NAME with a model in it; of a split
// model, the first part. Projectors (mmproj...) are not models. In alphabetical order. "hub": the models of the hub's
// cache, named OWNER/REPOSITORY/FILE without ".gguf". Throws Error.
std::vector<server::KnownModel> models_in(const std::string& folder);

}  // namespace specdec::cli
