// Parses JSON that a caller passes as text.
#pragma once

#include <stdexcept>
#include <string>

#include "json.h"

namespace specdec {

// Throws std::invalid_argument that names the argument.
inline common_json json_argument(const char* name, const std::string& text) {
  try {
    return common_json::parse(text);
  } catch (const common_json_error& error) {
    throw std::invalid_argument(std::string(name) + ": not JSON: " + error.what());
  }
}

}  // namespace specdec
