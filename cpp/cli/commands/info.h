// specdec info: the contents of a GGUF file, from its header.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_info();
int run_info(int argc, const char* const* argv);

}  // namespace specdec::cli
