// specdec chat: a conversation, line by line.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_chat();
int run_chat(int argc, const char* const* argv);

}  // namespace specdec::cli
