// Writes a GGUF file (version 3; the format is in gguf_file.h) that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

// The header's bytes, padded to the alignment. Sets the tensors' offsets, which are relative to the data in the header and
// from the start of the file in `tensors`: one after another, each aligned.
std::string gguf_header(const std::vector<GgufEntry>& metadata, std::vector<GgufTensor>& tensors, std::uint64_t alignment);

// The data goes to a temporary file beside `path`; publish() renames it, the destructor removes it otherwise.
// All functions throw specdec::Error.
class GgufWriter {
 public:
  // Refuses an existing `path` unless `overwrite`, one that is not a regular file, and a disk without room for the result.
  GgufWriter(const std::string& path, bool overwrite, const std::vector<GgufEntry>& metadata, std::vector<GgufTensor> tensors,
             std::uint64_t alignment);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // with the offsets to write to
  std::uint64_t file_size() const { return file_size_; }

  // From any thread. `offset` is from the start of the file; what is never written is zero.
  void write(std::uint64_t offset, const void* data, std::size_t bytes);
  void sync();     // everything is on the disk when it returns
  void publish();  // the file appears; replaces an old one in one step

 private:
  void create();

  std::string path_, temporary_;
  bool overwrite_;
  std::vector<GgufTensor> tensors_;
  std::uint64_t file_size_ = 0;
  int file_ = -1;
};

}  // namespace specdec
