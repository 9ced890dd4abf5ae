// Writes a GGUF file (version 3; format in gguf_file.h). The file gets its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "platform/output_file.h"

namespace specdec {

// The header's bytes, padded to the alignment. Places the tensors one after another, aligned. Offsets in the header are
// relative to the data section; those in `tensors` count from the start of the file.
std::string gguf_header(const std::vector<GgufEntry>& metadata, std::vector<GgufTensor>& tensors,
                        std::uint64_t alignment);

// All functions throw specdec::Error.
class GgufWriter {
 public:
  // Fails if `path` exists (unless `overwrite`), is not a regular file, or if the disk lacks space for the result.
  GgufWriter(const std::string& path, bool overwrite, const std::vector<GgufEntry>& metadata,
             std::vector<GgufTensor> tensors, std::uint64_t alignment);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // with the offsets to write to
  std::uint64_t file_size() const { return file_size_; }

  // May be called from any thread. `offset` is from the start of the file; bytes that are not written are zero.
  void write(std::uint64_t offset, const void* data, std::size_t bytes);
  void sync();     // flushes everything to disk
  void publish();  // renames the file to its final name, atomically replacing an old one

 private:
  OutputFile output_;
  std::vector<GgufTensor> tensors_;
  std::uint64_t file_size_ = 0;
};

}  // namespace specdec
