#include "cli/picture_files.h"

#include <memory>

namespace specdec::cli {

PictureFiles read_pictures(const Generator& generator, const std::vector<std::string>& paths) {
  PictureFiles pictures;
  for (const std::string& path : paths) {
    auto picture = std::make_shared<PictureFile>();
    picture->name = path;
    picture->bytes = bytes_of_picture(path);
    (void)generator.pictures().read(*picture);  // its errors name the file
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

std::string marks_of(const PictureFiles& pictures, std::size_t first) {
  std::string marks;
  for (std::size_t i = 0; i < pictures.size(); ++i) marks += picture_mark(first + i) + "\n";
  return marks;
}

}  // namespace specdec::cli
