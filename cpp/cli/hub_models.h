// Models of the Hugging Face hub on the command line: downloads with their progress on standard error.
#pragma once

#include <string>

namespace specdec::cli {

// The path itself, or that of the downloaded file if it has the form hf:OWNER/REPOSITORY:QUANT (hub/model_name.h).
std::string local_model(const std::string& path);

}  // namespace specdec::cli
