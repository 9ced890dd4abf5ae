// specdec completions: writes completions for shells, and manual pages.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_completions();
int run_completions(int argc, const char* const* argv);

}  // namespace specdec::cli
