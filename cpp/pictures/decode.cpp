#include "pictures/decode.h"

#include <algorithm>
#include <cstdint>
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
  if (bytes.size() >= 4 && (begins(0, "II*", 3) || (begins(0, "MM", 2) && bytes[3] == '*'))) return "a TIFF file";
  if (bytes.size() >= 5 && begins(0, "%PDF-", 5)) return "a PDF file";
  if (bytes.find("<svg") != std::string::npos && bytes.find("<svg") < 1024) return "an SVG file";
  return "";
}

// The file as stb_image reads it, which takes zeros for what is missing at the end.
struct Source {
  const std::string& bytes;
  std::size_t at = 0;
  bool is_cut = false;  // more was asked for than there is

  static int read(void* self, char* to, int size) {
    auto& source = *static_cast<Source*>(self);
    const std::size_t count = std::min(idx(size), source.bytes.size() - source.at);
    if (count == 0) source.is_cut = true;
    std::copy_n(source.bytes.begin() + static_cast<std::ptrdiff_t>(source.at), count, to);
    source.at += count;
    return static_cast<int>(count);
  }
  static void skip(void* self, int size) {  // stb_image also goes back
    auto& source = *static_cast<Source*>(self);
    const auto at = static_cast<std::int64_t>(source.at) + size, end = static_cast<std::int64_t>(source.bytes.size());
    if (at > end) source.is_cut = true;
    source.at = static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, end));
  }
  static int is_at_end(void* self) {
    const auto& source = *static_cast<Source*>(self);
    return source.at == source.bytes.size() ? 1 : 0;
  }
};
constexpr stbi_io_callbacks source_functions{Source::read, Source::skip, Source::is_at_end};

// Of a progressive JPEG file, a scan of few bytes costs time for every pixel. Cameras and editors write about ten.
constexpr int most_scans = 50;

int count_scans(const std::string& bytes) {
  int count = 0;
  if (bytes.compare(0, 2, "\xFF\xD8") != 0) return 0;
  for (std::size_t at = 0; (at = bytes.find("\xFF\xDA", at)) != std::string::npos; at += 2) ++count;
  return count;
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
  bool is_known = false;
  {
    const StbMemory memory(std::size_t{1} << 20);
    is_known = stbi_info_from_memory(data, size, &width, &height, &channels) != 0;
  }
  if (!is_known) {
    const std::string known = what_it_is(bytes);
    throw UnusablePicture("is " + (known.empty() ? "not a picture, or is damaged" : known) + "; " + known_types +
                          " read");
  }
  if (width < 1 || height < 1 || static_cast<std::int64_t>(width) * height > most_pixels) {
    throw UnusablePicture("has " + std::to_string(width) + " x " + std::to_string(height) +
                          " pixels; pictures have at least one and at most " + std::to_string(most_pixels / 1'000'000) +
                          " million");
  }
  if (count_scans(bytes) > most_scans)
    throw UnusablePicture("has more than " + std::to_string(most_scans) +
                          " scans; save it as a usual JPEG or PNG file");
  // The file's data, and at most 16 bits of 4 channels twice for each pixel, then 8 bits; blocks of JPEG files are 32
  // wide.
  const std::size_t count = idx(width) * idx(height);
  const StbMemory memory((std::size_t{1} << 20) + 4 * bytes.size() + 20 * (count + 32 * (idx(width) + idx(height))));
  Source source{bytes};
  const std::unique_ptr<stbi_uc, FreeImage> rgba(
      stbi_load_from_callbacks(&source_functions, &source, &width, &height, &channels, 4));
  if (!rgba) throw UnusablePicture(std::string("is damaged or cut: ") + stbi_failure_reason());
  if (source.is_cut) throw UnusablePicture("is cut: its end is missing");
  Pixels pixels{width, height, {}};
  pixels.rgb.resize(3 * count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < 3; ++c)
      pixels.rgb[3 * i + c] = over_white(rgba.get()[4 * i + c], rgba.get()[4 * i + 3]);
  }
  return upright(std::move(pixels), orientation_of(bytes));
}

}  // namespace specdec
