// Parts of the decoder that need no real files: types, limits, orientation. test_pictures.py has the files.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "check.h"
#include "pictures/decode.h"
#include "pictures/orientation.h"
#include "pictures/stb_image_memory.h"
#include "stb_image.h"

namespace {

using namespace specdec;

std::string error_of(const std::string& bytes) {
  try {
    decode_picture(bytes);
  } catch (const UnusablePicture& error) {
    return error.what();
  }
  return "";
}

std::string number(std::uint32_t value, int count) {
  std::string bytes;
  for (int i = count - 1; i >= 0; --i) bytes += static_cast<char>(value >> (8 * i) & 255);
  return bytes;
}

// A PNG file's beginning, which is enough for its size.
std::string png_of(std::uint32_t width, std::uint32_t height) {
  return std::string("\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16) + number(width, 4) + number(height, 4) +
         std::string("\x08\x02\0\0\0????\0\0\0\0IDAT", 17);
}

// A directory of two entries in either order of bytes.
std::string tiff(std::uint32_t orientation, bool is_little_endian) {
  std::string bytes = "MM" + number(42, 2) + number(8, 4) + number(2, 2);
  bytes += number(0x0100, 2) + number(4, 2) + number(1, 4) + number(640, 4);
  bytes += number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) + number(0, 2);
  if (!is_little_endian) return bytes;
  const int widths[] = {-2, 2, 4, 2, 2, 2, 4, 4, 2, 2, 4, 2, 2};
  std::string turned;
  std::size_t at = 0;
  for (const int width : widths) {
    const std::size_t count = static_cast<std::size_t>(width < 0 ? -width : width);
    for (std::size_t i = 0; i < count; ++i) turned += width < 0 ? 'I' : bytes[at + count - 1 - i];
    at += count;
  }
  return turned;
}

std::string jpeg_with(const std::string& segments) { return "\xFF\xD8" + segments + "\xFF\xDA"; }
std::string segment(std::uint32_t kind, const std::string& content) {
  return "\xFF" + number(kind, 1) + number(static_cast<std::uint32_t>(content.size()) + 2, 2) + content;
}
std::string exif(const std::string& content) { return segment(0xE1, std::string("Exif\0\0", 6) + content); }

TEST(other_types_are_named) {
  const std::vector<std::pair<std::string, std::string>> types = {
      {std::string("RIFF\x10\0\0\0WEBPVP8 ", 16), "is a WebP file"},
      {std::string("\0\0\0\x1C"
                   "ftypavif\0\0\0\0",
                   16),
       "is an AVIF"},
      {std::string("\0\0\0\x1C"
                   "ftypheic\0\0\0\0",
                   16),
       "HEIC"},
      {std::string("II*\0\x08\0\0\0", 8), "is a TIFF file"},
      {std::string("MM\0*\0\0\0\x08", 8), "is a TIFF file"},
      {"%PDF-1.7\n", "is a PDF file"},
      {"<?xml version=\"1.0\"?><svg xmlns=\"http://www.w3.org/2000/svg\"/>", "is an SVG file"},
      {"Dear all, the picture is attached.", "is not a picture, or is damaged"},
      {"GIF", "is not a picture, or is damaged"},
  };
  for (const auto& [bytes, expected] : types) {
    const std::string error = error_of(bytes);
    CHECK(error.find(expected) != std::string::npos);
    CHECK(error.find("PNG, JPEG, GIF and BMP") != std::string::npos);
  }
  CHECK(error_of("") == "is empty");
}

TEST(sizes_are_limited_before_any_pixel_is_read) {
  CHECK(error_of(png_of(8001, 8000)).find("8001 x 8000 pixels") != std::string::npos);
  CHECK(error_of(png_of(20000, 10000)).find("at most 64 million") != std::string::npos);
  CHECK(!error_of(png_of(65000, 65000)).empty());
  CHECK(error_of(png_of(8000, 8000)).find("damaged or cut") != std::string::npos);
  CHECK(!error_of(png_of(0, 8)).empty());
  CHECK(!error_of(png_of(0xFFFFFFFF, 1)).empty());
  CHECK(error_of(std::string(most_picture_bytes + 1, 'x')).find("32 MiB; pictures have at most 32") !=
        std::string::npos);
}

TEST(orientation_is_read_from_exif) {
  for (const bool is_little_endian : {false, true}) {
    for (std::uint32_t i = 0; i < 10; ++i) {
      const int expected = 1 <= i && i <= 8 ? static_cast<int>(i) : 1;
      const std::string content = tiff(i, is_little_endian);
      CHECK(orientation_of(jpeg_with(exif(content))) == expected);
      CHECK(orientation_of(jpeg_with(segment(0xE0, "JFIF") + segment(0xE1, "http://xmp") + exif(content))) == expected);
      const std::string chunk = number(static_cast<std::uint32_t>(content.size()), 4) + "eXIf" + content + "????";
      CHECK(orientation_of(png_of(1, 1).substr(0, 33) + chunk) == expected);
    }
  }
}

TEST(damaged_exif_is_ignored) {
  const std::string content = tiff(6, false), whole = jpeg_with(exif(content));
  CHECK(orientation_of(jpeg_with("") + exif(content)) == 1);  // after the picture's data began
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const int orientation = orientation_of(whole.substr(0, size));
    CHECK(orientation == 1 || orientation == 6);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0, 1, 0x7F, 0x80, 0xFF}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      const int orientation = orientation_of(changed);
      CHECK(1 <= orientation && orientation <= 8);
    }
  }
}

// The letter F, upright, as Exif's 8 orientations store it.
TEST(pictures_are_turned_upright) {
  const std::vector<std::string> stored[8] = {
      {"###", "#..", "##.", "#.."}, {"###", "..#", ".##", "..#"}, {"..#", ".##", "..#", "###"},
      {"#..", "##.", "#..", "###"}, {"####", "#.#.", "#..."},     {"#...", "#.#.", "####"},
      {"...#", ".#.#", "####"},     {"####", ".#.#", "...#"},
  };
  const auto picture = [](const std::vector<std::string>& lines) {
    Pixels pixels{static_cast<int>(lines[0].size()), static_cast<int>(lines.size()), {}};
    for (const std::string& line : lines) {
      for (const char c : line) pixels.rgb.insert(pixels.rgb.end(), {static_cast<std::uint8_t>(c), 7, 9});
    }
    return pixels;
  };
  for (int i = 1; i <= 8; ++i) {
    const Pixels pixels = upright(picture(stored[i - 1]), i), expected = picture(stored[0]);
    CHECK(pixels.width == 3 && pixels.height == 4);
    CHECK(pixels.rgb == expected.rgb);
  }
  CHECK(upright(picture(stored[0]), 9).width == 3);
}

TEST(the_decoder_has_no_memory_unless_it_is_given) {
  const std::string gif("GIF89a\2\0\2\0\x80\0\0\0\0\0\xFF\xFF\xFF,\0\0\0\0\2\0\2\0\0\2\2D\n\0;", 36);
  const auto* const data = reinterpret_cast<const stbi_uc*>(gif.data());
  const auto decodes = [&] {
    int width = 0, height = 0, channels = 0;
    stbi_uc* const image = stbi_load_from_memory(data, static_cast<int>(gif.size()), &width, &height, &channels, 4);
    if (image != nullptr) stbi_image_free(image);
    return image != nullptr;
  };
  CHECK(!decodes());
  {
    const StbMemory memory(std::size_t{1} << 20);
    CHECK(decodes());
    CHECK(decodes());  // what was freed is there again
  }
  {
    const StbMemory memory(20);
    CHECK(!decodes());
  }
  CHECK(decode_picture(gif).width == 2);
}

}  // namespace

TEST_MAIN()
