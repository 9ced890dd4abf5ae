// Replaces xgrammar's printing: its warnings are collected, its failed checks become exceptions.
#pragma once

#include <stdexcept>
#include <string>

namespace specdec {

// A failed check in xgrammar.
class XgrammarError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The first warning on this thread since the last call; empty: none. xgrammar warns when it ignores a part of its
// input.
std::string take_xgrammar_warning();

}  // namespace specdec
