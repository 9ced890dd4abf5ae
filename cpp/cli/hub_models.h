// Models of the Hugging Face hub on the command line: downloads with their progress on standard error.
#pragma once

#include <string>

#include "engine/draft_source.h"

namespace specdec::cli {

// The path itself, or that of the downloaded file if it has the form hf:OWNER/REPOSITORY:QUANT (hub/model_name.h).
std::string local_model(const std::string& path);

// For --draft auto: a downloaded model of the target's family, or suffix decoding. Says which, and why not the other.
DraftSource companion_draft(const std::string& target_path);

}  // namespace specdec::cli
