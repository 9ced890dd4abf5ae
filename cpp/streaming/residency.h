// Chooses which parts of a model stay in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace specdec {

struct ResidencyPart {
  std::size_t bytes;
  bool may_go;
};

// [parts]: whether each stays. parts: in the order in which a pass uses them. What goes has at least must_go bytes if
// that many may go, as little more as whole parts allow, and is spread evenly, so that computing with what stays hides
// the reading of the rest.
std::vector<bool> parts_that_stay(const std::vector<ResidencyPart>& parts, std::uint64_t must_go);

}  // namespace specdec
