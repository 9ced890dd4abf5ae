// The subcommands of specdec.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace specdec::cli {

struct Command {
  const char* name;
  const char* help;
  int (*run)(int argc, const char* const* argv);
  CommandLine (*describe)();  // its options, for completions and manual pages
};
const std::vector<Command>& commands();

const Command* find_command(const std::string& name);  // null: there is none

// The purpose of specdec in a paragraph.
constexpr const char* purpose =
    "Lossless speculative decoding: a small draft model proposes tokens, the target model verifies all of them in one "
    "pass. Faster, and the output is distributed exactly as the target's.";

}  // namespace specdec::cli
