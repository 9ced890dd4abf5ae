// Whether files are what they were, told quickly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace specdec {

// FNV-1a, 64 bits: tells things apart, not attackers.
class Fingerprint {
 public:
  void add(const void* data, std::size_t bytes);
  std::string text() const;  // 16 hexadecimal digits

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

// Of a model in one file or in parts, wherever it lies: its headers whole and 1 KB of every tensor, whatever its size. Throws
// ModelError.
std::string model_fingerprint(const std::string& path);

}  // namespace specdec
