// specdec models: what the hub's cache on this machine holds.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_models();
int run_models(int argc, const char* const* argv);

}  // namespace specdec::cli
