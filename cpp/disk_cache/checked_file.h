// Cache files of ours that a later process reads, and that can be rebuilt.
//
// Little-endian: a magic word of 8 characters, u32 version, fields of u64 length and that many bytes; at the end the
// ContentHash of all before it, 16 hexadecimal digits. No field is used before the hash has been checked. The hash
// detects damage, not malice: trust a file from someone else as you would trust a program from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/file.h"
#include "platform/output_file.h"

namespace specdec {

// A hash of bytes that come in pieces, as fast as memory: FNV-1a over 64-bit words in four lanes. A change within one
// word always changes it.
class ContentHash {
 public:
  void add(const void* data, std::size_t bytes);
  std::string text() const;  // 16 hexadecimal digits

 private:
  static constexpr std::size_t num_lanes = 4;
  static constexpr std::size_t block_bytes = num_lanes * sizeof(std::uint64_t);

  void add_block(const unsigned char* block);

  std::array<std::uint64_t, num_lanes> lanes_{1, 2, 3, 4};
  std::array<unsigned char, block_bytes> rest_{};  // bytes that do not fill a block yet
  std::size_t num_rest_ = 0;
  std::uint64_t num_bytes_ = 0;
};

std::string content_hash(const void* data, std::size_t bytes);  // of data in one piece

// A file that is damaged, or of another kind, version, model or options: to be rebuilt.
class UnusableFile : public Error {
  using Error::Error;
};

// The file replaces an old one when it is complete. Throws Error.
class CheckedFileWriter {
 public:
  CheckedFileWriter(const std::string& path, const char* magic, std::uint32_t version);

  void field(const void* from, std::size_t bytes);
  void field(const std::string& text) { field(text.data(), text.size()); }
  template <class T>
  void field(const std::vector<T>& values) {
    field(values.data(), values.size() * sizeof(T));
  }
  void finish();

 private:
  void put(const void* from, std::size_t bytes);

  OutputFile output_;
  ContentHash hash_;
  std::uint64_t offset_ = 0;
};

// Reads the whole file and checks its hash. what: the kind of file, for messages ("a prompt cache"). Throws
// UnusableFile, or Error if the file cannot be read.
class CheckedFileReader {
 public:
  CheckedFileReader(const std::string& path, const char* magic, std::uint32_t version, const char* what);

  std::string field();
  template <class T>
  std::vector<T> values() {  // a field that is an array of T
    std::vector<T> values;
    read_values(values, sizeof(T));
    return values;
  }
  bool at_end() const { return at_ == end_; }
  [[noreturn]] void fail() const;  // it is damaged

 private:
  template <class T>
  void read_values(std::vector<T>& values, std::size_t size) {
    const std::size_t bytes = next_length();
    if (bytes % size != 0) fail();
    values.resize(bytes / size);
    take(values.data(), bytes);
  }
  std::size_t next_length();
  void take(void* to, std::size_t bytes);

  std::string path_, content_;
  std::size_t at_ = 0, end_ = 0;
};

// The first fields of a file, read without its hash: only to decide whether to read all of it. Throws UnusableFile, or
// Error if the file cannot be read.
class CheckedFileStart {
 public:
  CheckedFileStart(const std::string& path, const char* magic, std::uint32_t version);

  std::string field(std::size_t most_bytes);  // a longer field counts as damage

 private:
  std::string path_;
  File file_;
  std::uint64_t at_ = 0;
};

}  // namespace specdec
