// The orientation flag of Exif: how a camera was held.
#pragma once

#include <string>

#include "pictures/pixels.h"

namespace specdec {

// 1 to 8, as in Exif's tag 0x0112; 1 (upright) if a JPEG or PNG file has none or it cannot be read.
int orientation_of(const std::string& bytes);

// Turns and mirrors the pixels so that the picture is upright.
Pixels upright(Pixels pixels, int orientation);

}  // namespace specdec
