// Generates manual pages (man(7)) of the command line from the options' tables.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace specdec::cli {

// The pages with their names, such as "specdec-chat.1".
std::vector<std::pair<std::string, std::string>> manual_pages();

}  // namespace specdec::cli
