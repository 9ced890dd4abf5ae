// Manual pages (man(7)) of the command line, made of the options' tables.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace specdec::cli {

// Names such as "specdec-chat.1", and the pages.
std::vector<std::pair<std::string, std::string>> manual_pages();

}  // namespace specdec::cli
