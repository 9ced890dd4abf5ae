// MXFP6 weights for devices, which have no kernels for them: the same numbers as Q8_0.
//
// A code of E2M3 is a whole number of eighths up to 60, and a block's scale a power of two, so 32 of them are a block
// of Q8_0 with an eighth of that scale. F16 has it from 2^-24 on: blocks whose scale is less than 2^-21 are rounded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "llama/load_progress.h"
#include "llama/offload.h"
#include "platform/temporary_folder.h"

namespace specdec {

class Q8Copy {
 public:
  // Writes the model to a temporary file, with the MXFP6 matrices that devices get as Q8_0. Throws Error, for example
  // if the disk is full, and Cancelled.
  Q8Copy(const std::vector<GgufFile>& parts, const Offload& offload, const LoadProgressCallback& progress);
  std::string path() const;

  // Whether one of these matrices is MXFP6.
  static bool is_needed(const std::vector<GgufFile>& parts, const Offload& offload);

 private:
  TemporaryFolder folder_;
};

}  // namespace specdec
