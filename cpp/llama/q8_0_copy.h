// Converts MXFP6 weights to Q8_0 for devices, which have no MXFP6 kernels. The numbers stay the same.
//
// An E2M3 code is a whole number of eighths, at most 60, and a block's scale is a power of two, so 32 codes become a
// block of Q8_0 with an eighth of that scale. F16 represents this scale from 2^-24 on; blocks whose scale is below
// 2^-21 are rounded.
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
  // Writes the model to a temporary file, with the MXFP6 matrices that go to devices converted to Q8_0. Throws Error,
  // for example if the disk is full, and Cancelled.
  Q8Copy(const std::vector<GgufFile>& parts, const Offload& offload, const LoadProgressCallback& progress);
  std::string path() const;

  // Whether any matrix that goes to a device is MXFP6.
  static bool is_needed(const std::vector<GgufFile>& parts, const Offload& offload);

 private:
  TemporaryFolder folder_;
};

}  // namespace specdec
