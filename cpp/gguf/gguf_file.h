// The header of a GGUF file, read and checked before llama.cpp sees the file: llama.cpp aborts on some bad files.
//
// GGUF versions 2 and 3, little-endian, one after another without padding:
//   "GGUF", u32 version, u64 n_tensors, u64 n_kv
//   n_kv times:       string key, u32 type, value; an array is u32 element type, u64 count, the elements
//   n_tensors times:  string name, u32 n_dims, u64 shape[n_dims], u32 ggml type, u64 offset relative to the data
//   zeros up to a multiple of the alignment, then the data of the tensors
// A string is u64 length and that many bytes, by convention UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/weight_types.h"

namespace specdec {

// Types of metadata values, with the format's numbers.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
const char* gguf_type_name(GgufType type);

struct GgufArray;
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;

// An array in its stored form, because a tokenizer has hundreds of thousands of elements that few callers read.
struct GgufArray {
  GgufType type;  // of the elements
  std::uint64_t count;
  std::string bytes;

  // The first `limit` elements.
  std::vector<GgufValue> elements(std::uint64_t limit = UINT64_MAX) const;
};

struct GgufEntry {
  std::string key;
  GgufType type;
  GgufValue value;
};

struct GgufTensor {
  std::string name;
  int type;                          // ggml's id (base/weight_types.h)
  std::vector<std::uint64_t> shape;  // 1 to 4 dimensions, ggml's order: columns (contiguous) first, then rows
  std::uint64_t offset;              // from the start of the file
  std::uint64_t bytes;

  std::uint64_t elements() const;
};

class GgufFile {
 public:
  // Reads only the header. The result is consistent: every tensor has a known type, is inside the file, aligned, and
  // does not overlap others; keys and names are unique. Memory is proportional to the header's length. Throws
  // ModelError.
  static GgufFile read(const std::string& path);

  // All parts of a model in order, given the path of any of them (a single file is one part). The parts must be in one
  // folder and have the names that llama.cpp expects: <prefix>-00001-of-00003.gguf. Also checks metadata that llama.cpp
  // only asserts, so that bad values are reported instead of aborting the process.
  static std::vector<GgufFile> read_parts(const std::string& path);
  static std::vector<GgufFile> with_other_parts(GgufFile file);  // the same, given a part that was read already

  std::string path;
  std::uint32_t version = 0;
  std::uint64_t file_size = 0;
  std::uint64_t alignment = 0;      // of every tensor's data; a power of two
  std::uint64_t data_offset = 0;    // from the start of the file
  std::vector<GgufEntry> metadata;  // in the file's order
  std::vector<GgufTensor> tensors;  // in the file's order

  // Null or nullopt if the key is missing or has another type.
  const GgufValue* find(std::string_view key) const;
  const GgufArray* array(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  std::optional<std::uint64_t> integer(std::string_view key) const;  // any integer type, not negative
  std::optional<double> number(std::string_view key) const;          // any integer or float type
  std::optional<bool> boolean(std::string_view key) const;
};

std::uint64_t total_file_size(const std::vector<GgufFile>& parts);  // bytes

// Null if no part has it.
const GgufTensor* find_tensor(const std::vector<GgufFile>& parts, std::string_view name);

}  // namespace specdec
