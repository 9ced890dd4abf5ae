// Pictures of prompts: decodes them, and reads them with the target's projector, which is loaded when the first one
// comes.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "llama/model.h"
#include "llama/projector.h"
#include "pictures/picture_file.h"
#include "speculative/text.h"

namespace specdec {

class PictureReader {
 public:
  struct Options {
    std::string projector;  // a file; empty: none
    std::string why_not;    // why no pictures are read, as a sentence with the remedy; empty: they are
    int num_threads = 1;
    int batch_size = 512;  // tokens of the target's passes
  };
  PictureReader(std::shared_ptr<const Model> target, Options options);

  bool reads_pictures() const { return options_.why_not.empty(); }
  const std::string& why_not() const { return options_.why_not; }
  const std::string& projector() const { return options_.projector; }
  // Loads the projector now. Throws ModelError.
  void load();

  // What stands for the picture in a text. On any thread. The pictures read last are kept with their rows, so that the
  // next question about them does not encode them again. Throws std::invalid_argument that names the picture, or why
  // none is read; ModelError.
  Text read(const PictureFile& picture);

 private:
  struct Kept {
    std::string key;  // of the file's bytes
    Text text;
    std::uint64_t bytes;  // of memory, about
  };
  static constexpr std::uint64_t most_kept_bytes = std::uint64_t{128} << 20;

  std::shared_ptr<const Projector> loaded();

  const std::shared_ptr<const Model> target_;
  const Options options_;
  std::mutex mutex_;  // of the members below
  std::shared_ptr<const Projector> projector_;
  std::list<Kept> kept_;  // the last used first
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace specdec
