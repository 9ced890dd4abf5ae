// A picture that a caller gives with a prompt, as the bytes of a file, and the mark that stands for it in the text
// until the prompt is tokenized.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace specdec {

struct PictureFile {
  std::string name;   // for errors: a path, or the place in a request
  std::string bytes;  // pictures/decode.h
};
using PictureFiles = std::vector<std::shared_ptr<const PictureFile>>;

// The bytes of a file, or its first ones if it is larger than what is read. Throws Error.
std::string bytes_of_picture(const std::string& path);

// The mark of a prompt's picture, by its index. It is random in each process, so no text of a caller can spell it.
std::string picture_mark(std::size_t index);

}  // namespace specdec
