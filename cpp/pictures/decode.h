// Decodes picture files: PNG, JPEG, GIF (its first frame) and BMP.
//
// Transparent pixels are laid over white, 16 bits become 8, CMYK and grey become RGB, an orientation flag is obeyed,
// and a colour profile is not. The files come from anywhere, so the bytes, the pixels and the decoder's memory are
// bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "pictures/pixels.h"

namespace specdec {

// What is wrong with the file, as a sentence without its name: "is not a picture ...".
struct UnusablePicture : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

constexpr std::size_t most_picture_bytes = std::size_t{32} << 20;
constexpr std::int64_t most_pixels = 64'000'000;

// Throws UnusablePicture.
Pixels decode_picture(const std::string& bytes);

}  // namespace specdec
