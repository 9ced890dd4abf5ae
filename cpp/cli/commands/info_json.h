// `specdec info --json`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/commands/gguf_summary.h"

namespace specdec::cli {

// One object; arrays in the metadata are cut to max_elements.
std::string info_json(const Parts& parts, std::uint64_t max_elements);

}  // namespace specdec::cli
