#include "pictures/decode.h"

#include <memory>

#include "base/format.h"
#include "base/index.h"
#include "pictures/orientation.h"
#include "pictures/stb_image_memory.h"
#include "stb_image.h"

namespace specdec {
namespace {

constexpr const char* known_types = "PNG, JPEG, GIF and BMP files are";

// A sentence's end for types that people often send.
std::string what_it_is(const std::string& bytes) {
  const auto begins = [&](std::size_t at, const char* mark, std::size_t length) {
    return bytes.compare(at, length, mark, length) == 0;
  };
  if (bytes.size() >= 12) {
    if (begins(0, "RIFF", 4) && begins(8, "WEBP", 4)) return "a WebP file";
    if (begins(4, "ftyp", 4)) return "an AVIF, HEIC or video file";
  }
  if (bytes.size() >= 4 && (begins(0, "II*\0", 4) || begins(0, "MM\0*", 4))) return "a TIFF file";
  if (bytes.size() >= 5 && begins(0, "%PDF-", 5)) return "a PDF file";
  if (bytes.find("<svg") != std::string::npos && bytes.find("<svg") < 1024) return "an SVG file";
  return "";
}

struct FreeImage {
  void operator()(stbi_uc* image) const { stbi_image_free(image); }
};

std::uint8_t over_white(int colour, int alpha) {
  return static_cast<std::uint8_t>((colour * alpha + 255 * (255 - alpha) + 127) / 255);
}

}  // namespace

Pixels decode_picture(const std::string& bytes) {
  if (bytes.empty()) throw UnusablePicture("is empty");
  if (bytes.size() > most_picture_bytes) {
    throw UnusablePicture("has " + std::to_string(bytes.size() >> 20) + " MiB; pictures have at most " +
                          std::to_string(most_picture_bytes >> 20));
  }
  const auto* const data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  int width = 0, height = 0, channels = 0;
  const StbMemory memory(4 * static_cast<std::size_t>(most_pixels) * 5);  // decoded, defiltered, converted
  if (stbi_info_from_memory(data, size, &width, &height, &channels) == 0) {
    const std::string known = what_it_is(bytes);
    throw UnusablePicture("is " + (known.empty() ? "not a picture, or is damaged" : known) + "; " + known_types +
                          " read");
  }
  if (width < 1 || height < 1 || static_cast<std::int64_t>(width) * height > most_pixels) {
    throw UnusablePicture("has " + std::to_string(width) + " x " + std::to_string(height) +
                          " pixels; pictures have at least one and at most " + std::to_string(most_pixels / 1'000'000) +
                          " million");
  }
  const std::unique_ptr<stbi_uc, FreeImage> rgba(stbi_load_from_memory(data, size, &width, &height, &channels, 4));
  if (!rgba) throw UnusablePicture(std::string("is damaged or cut: ") + stbi_failure_reason());
  Pixels pixels{width, height, {}};
  const std::size_t count = idx(width) * idx(height);
  pixels.rgb.resize(3 * count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < 3; ++c) pixels.rgb[3 * i + c] = over_white(rgba.get()[4 * i + c], rgba.get()[4 * i + 3]);
  }
  return upright(std::move(pixels), orientation_of(bytes));
}

}  // namespace specdec
