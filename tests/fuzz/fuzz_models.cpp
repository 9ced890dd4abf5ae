// Changed models through the reader and the checks of metadata and tensors: they return or throw ModelError.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "edited_model.h"
#include "gguf/gguf_file.h"
#include "llama/tensor_types.h"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* input, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return specdec::fuzz::mutate_edits(input, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  try {
    specdec::check_tensor_types(specdec::GgufFile::read_parts(specdec::fuzz::write_edited_model(input, size)));
  } catch (const specdec::ModelError&) {
  }
  return 0;
}
