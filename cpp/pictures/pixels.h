// A decoded picture.
#pragma once

#include <cstdint>
#include <vector>

namespace specdec {

struct Pixels {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // [height][width][3], the top row first
};

}  // namespace specdec
