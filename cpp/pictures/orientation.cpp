#include "pictures/orientation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/index.h"

namespace specdec {
namespace {

// Bytes of a file, read with bounds: 0 beyond the end.
class Bytes {
 public:
  Bytes(const std::string& bytes, std::size_t begin, std::size_t end)
      : bytes_(bytes), begin_(std::min(begin, bytes.size())), end_(std::clamp(end, begin_, bytes.size())) {}
  std::size_t size() const { return end_ - begin_; }
  std::uint32_t at(std::size_t offset) const {
    return offset < size() ? static_cast<unsigned char>(bytes_[begin_ + offset]) : 0;
  }
  bool begins_with(const std::string& mark) const {
    return size() >= mark.size() && bytes_.compare(begin_, mark.size(), mark) == 0;
  }
  std::uint32_t number(std::size_t offset, int count, bool is_little_endian) const {
    std::uint32_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 8 | at(offset + idx(is_little_endian ? count - 1 - i : i));
    return value;
  }

 private:
  const std::string& bytes_;
  std::size_t begin_, end_;
};

// A TIFF header and the entries of its first directory, of 12 bytes each.
int orientation_in_tiff(const Bytes& tiff) {
  const bool is_little_endian = tiff.begins_with("II");
  if (!is_little_endian && !tiff.begins_with("MM")) return 1;
  const std::size_t directory = tiff.number(4, 4, is_little_endian);
  const std::uint32_t count = tiff.number(directory, 2, is_little_endian);
  for (std::uint32_t i = 0; i < count && directory + 2 + 12 * (i + 1) <= tiff.size(); ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (tiff.number(entry, 2, is_little_endian) != 0x0112) continue;
    const std::uint32_t value = tiff.number(entry + 8, 2, is_little_endian);
    return 1 <= value && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// Segments before the picture's data: FF, a kind, and the length of the rest.
int orientation_in_jpeg(const std::string& bytes) {
  const Bytes file(bytes, 0, bytes.size());
  for (std::size_t at = 2; at + 4 <= file.size() && file.at(at) == 0xFF;) {
    const std::uint32_t kind = file.at(at + 1), length = file.number(at + 2, 2, false);
    if (kind == 0xDA || length < 2) break;
    const std::string mark("Exif\0\0", 6);
    if (kind == 0xE1 && Bytes(bytes, at + 4, at + 2 + length).begins_with(mark))
      return orientation_in_tiff({bytes, at + 4 + mark.size(), at + 2 + length});
    at += 2 + length;
  }
  return 1;
}

// Chunks: a length, a name, the content, a checksum.
int orientation_in_png(const std::string& bytes) {
  const Bytes file(bytes, 0, bytes.size());
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t length = file.number(at, 4, false);
    if (bytes.compare(at + 4, 4, "eXIf") == 0) return orientation_in_tiff({bytes, at + 8, at + 8 + length});
    at += 12 + length;
  }
  return 1;
}

}  // namespace

int orientation_of(const std::string& bytes) {
  if (bytes.compare(0, 2, "\xFF\xD8") == 0) return orientation_in_jpeg(bytes);
  if (bytes.compare(0, 8, "\x89PNG\r\n\x1A\n") == 0) return orientation_in_png(bytes);
  return 1;
}

Pixels upright(Pixels pixels, int orientation) {
  if (orientation <= 1 || orientation > 8) return pixels;
  const bool is_turned = orientation >= 5;  // rows were columns
  const bool flips_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flips_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Pixels turned{is_turned ? pixels.height : pixels.width, is_turned ? pixels.width : pixels.height, {}};
  turned.rgb.resize(pixels.rgb.size());
  for (int y = 0; y < turned.height; ++y) {
    for (int x = 0; x < turned.width; ++x) {
      int from_x = is_turned ? y : x, from_y = is_turned ? x : y;
      if (flips_x) from_x = pixels.width - 1 - from_x;
      if (flips_y) from_y = pixels.height - 1 - from_y;
      const std::size_t from = 3 * (idx(from_y) * idx(pixels.width) + idx(from_x));
      std::copy_n(pixels.rgb.begin() + static_cast<std::ptrdiff_t>(from), 3,
                  turned.rgb.begin() + static_cast<std::ptrdiff_t>(3 * (idx(y) * idx(turned.width) + idx(x))));
    }
  }
  return turned;
}

}  // namespace specdec
