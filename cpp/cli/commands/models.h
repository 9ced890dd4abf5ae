// specdec models: lists, downloads and removes models in the hub's cache on this machine.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_models();
int run_models(int argc, const char* const* argv);

}  // namespace specdec::cli
