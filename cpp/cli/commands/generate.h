// specdec generate: continues a prompt.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_generate();
int run_generate(int argc, const char* const* argv);

}  // namespace specdec::cli
