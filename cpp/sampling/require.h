// Argument errors of this folder, all in one form: "top_p = 1.5: must be in (0, 1]".
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace specdec::sampling {

template <class Value>
[[noreturn]] void throw_invalid(const std::string& name, Value value, const std::string& range) {
  std::ostringstream text;
  text.precision(15);
  text << name << " = " << value << ": must be " << range;
  throw std::invalid_argument(text.str());
}

template <class Value>
void require(bool valid, const char* name, Value value, const char* range) {
  if (!valid) throw_invalid(name, value, range);
}

}  // namespace specdec::sampling
