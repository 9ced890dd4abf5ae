#include "gguf/fingerprint.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "gguf/gguf_file.h"

namespace specdec {
namespace {

// Samples of every tensor, evenly spaced from its first byte to its last. Versions of a model may differ in a few
// tensors, but a changed tensor usually differs in most of its weights.
constexpr std::uint64_t num_pieces = 4, piece_bytes = 256;

// Reads bytes at an offset in a file.
std::vector<char> read(std::ifstream& file, const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  std::vector<char> piece(bytes);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(piece.data(), static_cast<std::streamsize>(bytes));
  if (!file) throw ModelError(path + ": cannot be read at byte " + std::to_string(offset) + "; check the file");
  return piece;
}

}  // namespace

void Fingerprint::add(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash_ = (hash_ ^ at[i]) * 0x100000001b3u;
}

std::string Fingerprint::text() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash_));
  return text;
}

std::string model_fingerprint(const std::string& path) { return model_fingerprint(GgufFile::read_parts(path)); }

std::string model_fingerprint(const std::vector<GgufFile>& parts) {
  Fingerprint fingerprint;
  for (const GgufFile& part : parts) {
    std::ifstream file(part.path, std::ios::binary);
    const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
      const std::vector<char> piece = read(file, part.path, offset, bytes);
      fingerprint.add(piece.data(), piece.size());
    };
    add(0, std::min(part.data_offset, part.file_size));  // a file without tensors may lack the padding
    for (const GgufTensor& tensor : part.tensors) {
      const std::uint64_t bytes = std::min(piece_bytes, tensor.bytes);
      for (std::uint64_t i = 0; i < num_pieces; ++i)
        add(tensor.offset + (tensor.bytes - bytes) * i / (num_pieces - 1), bytes);
    }
  }
  return fingerprint.text();
}

}  // namespace specdec
