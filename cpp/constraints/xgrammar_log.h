// What xgrammar would print: its warnings are collected, its failed checks are exceptions.
#pragma once

#include <stdexcept>
#include <string>

namespace specdec {

// A failed check of xgrammar's.
class XgrammarError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The first warning on this thread since the last call; empty: none. xgrammar warns where it ignores a part of its
// input.
std::string take_xgrammar_warning();

}  // namespace specdec
