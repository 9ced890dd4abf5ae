// Downloads models of the Hugging Face hub for the command line, with progress on standard error.
#pragma once

#include <string>

#include "hub/model_name.h"

namespace specdec::cli {

// Returns the path itself, or the path of the downloaded file if it has the form hf:OWNER/REPOSITORY:QUANT
// (hub/model_name.h).
std::string local_model(const std::string& path);
std::string local_target(const std::string& path);  // with its projector, if the repository has one

// Parses a short name (hub/companions.h) or OWNER/REPOSITORY and so on, with or without "hf:". Throws
// std::invalid_argument.
HubName hub_name(const std::string& text);

}  // namespace specdec::cli
