// A fast fingerprint of model files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace specdec {

// FNV-1a, 64 bits; not cryptographic.
class Fingerprint {
 public:
  void add(const void* data, std::size_t bytes);
  std::string text() const;  // 16 hexadecimal digits

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

class GgufFile;

// The fingerprint of a model in one file or several parts, independent of its path: the whole headers and 1 KB of every
// tensor. Throws ModelError.
std::string model_fingerprint(const std::vector<GgufFile>& parts);
std::string model_fingerprint(const std::string& path);

}  // namespace specdec
