#include "pictures/picture_file.h"

#include <random>

#include "base/format.h"
#include "pictures/decode.h"
#include "platform/file.h"

namespace specdec {

std::string bytes_of_picture(const std::string& path) {
  std::string bytes(most_picture_bytes + 1, '\0');  // one more tells a larger file
  bytes.resize(File::open(path).read_some(0, bytes.data(), bytes.size()));
  return bytes;
}

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
