#include "pictures/picture_file.h"

#include <random>

#include "base/format.h"

namespace specdec {

std::string picture_mark(std::size_t index) {
  static const std::string secret = [] {
    std::random_device device;
    std::string digits;
    for (int i = 0; i < 4; ++i) digits += format("%08x", device());
    return digits;
  }();
  return "<__picture_" + secret + "_" + std::to_string(index) + "__>";
}

}  // namespace specdec
