// The types of tensors in GGUF files: numbers, names and sizes of ggml's types and of our own.
// tests/llama/test_ggml_types.cpp compares them with ggml's.
#pragma once

#include <cstdint>

namespace specdec {

// How ggml stores a type: blocks of `block` elements along the columns, `bytes` bytes each.
struct GgmlType {
  int id;
  const char* name;
  std::uint64_t block;  // 0: no longer read
  std::uint64_t bytes;
};
// Null if the type is unknown.
const GgmlType* find_ggml_type(int id);

// Ids that this program uses by name.
namespace type_id {
constexpr int f32 = 0, f16 = 1, q8_0 = 8, mxfp6_e2m3 = 96;
constexpr int mxfp6_e3m2 = 97;  // earlier versions wrote it; this one does not read it
}  // namespace type_id

constexpr bool is_mxfp6(int type) { return type == type_id::mxfp6_e2m3; }

// MXFP6 matrices are stored in tiles (weights/mxfp6/format.h), so rows come in bands, and a file states its order of
// tiles.
constexpr std::uint64_t mxfp6_block = 32, mxfp6_block_bytes = 25, mxfp6_rows_multiple = 16;
constexpr const char* mxfp6_layout_key = "mxfp6.layout";
constexpr std::uint64_t mxfp6_layout = 1;

}  // namespace specdec
