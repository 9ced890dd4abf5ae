// Pictures given as files.
#pragma once

#include <string>
#include <vector>

#include "engine/generator.h"
#include "pictures/picture_file.h"

namespace specdec::cli {

// Throws Error for files that cannot be read, std::invalid_argument for those that are no pictures and for a model that
// reads none.
PictureFiles read_pictures(const Generator& generator, const std::vector<std::string>& paths);

// The marks of the pictures, from the one with this index on, each followed by a line break.
std::string marks_of(const PictureFiles& pictures, std::size_t first = 0);

}  // namespace specdec::cli
