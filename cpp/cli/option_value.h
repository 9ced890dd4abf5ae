// Converts the text of an option on the command line to its value.
#pragma once

#include <optional>
#include <string>

#include "cli/options.h"

namespace specdec::cli {

// Throws a UsageError that says what is expected.
option::Value read_value(const Option& option, const std::string& text);

// The whole text as a number; nullopt if it is not one.
std::optional<double> real_number(const std::string& text);

}  // namespace specdec::cli
