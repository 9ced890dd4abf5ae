// Argument checks of this folder.
#pragma once

#include <sstream>
#include <string>

#include "base/argument.h"

namespace specdec::sampling {

template <class Value>
[[noreturn]] void throw_invalid(const std::string& name, Value value, const std::string& requirement) {
  std::ostringstream text;
  text.precision(15);
  text << value;
  throw WrongValue(name, text.str(), requirement);
}

template <class Value>
void require(bool valid, const char* name, Value value, const char* requirement) {
  if (!valid) throw_invalid(name, value, requirement);
}

}  // namespace specdec::sampling
