// Text in which the parts that a caller wrote are marked.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace specdec {

// The text of a prompt. In the ranges of `input`, special tokens are ordinary text, so that nobody who only supplies
// messages can end a turn or begin another.
struct MarkedText {
  std::string text;                                        // UTF-8
  std::vector<std::pair<std::size_t, std::size_t>> input;  // [begin, end) in bytes, ascending, disjoint
};

}  // namespace specdec
