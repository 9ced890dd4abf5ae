// The text output of `specdec info`, in 80 columns.
#pragma once

#include <string>

#include "cli/commands/gguf_summary.h"

namespace specdec::cli {

std::string overview_text(const Parts& parts);  // facts, files, tensors by type
std::string metadata_text(const GgufFile& file);
std::string tensors_text(const Parts& parts);

}  // namespace specdec::cli
