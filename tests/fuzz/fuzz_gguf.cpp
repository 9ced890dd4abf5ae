// Bytes as a GGUF file: the reader returns or throws ModelError.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "gguf/gguf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static const int file = memfd_create("gguf", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, input, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    specdec::GgufFile::read_parts(path);
  } catch (const specdec::ModelError&) {
  }
  return 0;
}
