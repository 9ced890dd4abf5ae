// How a KV cache holds keys and values, and the bytes that it takes per token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/weight_types.h"

namespace specdec {

class GgufFile;

enum class KvType {
  f16,   // 16 bits each
  q8_0,  // 8.5 bits: blocks of 32 int8 with an F16 scale; heads must be multiples of 32 wide
};

struct KvTypeRow {
  KvType type;
  const char* name;
  int ggml_type;  // base/weight_types.h
};
constexpr KvTypeRow kv_types[] = {{KvType::f16, "f16", type_id::f16}, {KvType::q8_0, "q8_0", type_id::q8_0}};

KvType parse_kv_type(const std::string& name);  // throws std::invalid_argument
const char* name(KvType type);
int ggml_type_of(KvType type);
std::uint64_t block_size(KvType type);  // how many numbers share a scale

// What a model keeps of every token, from the metadata of its file. An upper bound: layers without attention, or with
// shared or compressed keys, take less.
struct CacheShape {
  struct Head {
    std::uint64_t key = 0, value = 0;  // numbers
  };
  Head full, windowed;               // for layers with full attention, and with a sliding window
  std::vector<std::uint64_t> heads;  // [layers] number of heads with keys and values
  std::uint64_t state = 0;           // numbers (F32) in the state of a recurrent layer, which does not grow

  static CacheShape of(const GgufFile& first_part);
  // Bytes of the cache of the first `layers` layers, counting each as the larger kind; at most UINT64_MAX / 4.
  std::uint64_t bytes(std::uint64_t tokens, KvType type, std::size_t layers = SIZE_MAX) const;
  // The same for the last `layers` layers.
  std::uint64_t bytes_of_last(std::uint64_t tokens, KvType type, std::size_t layers) const;
  // Bytes of the recurrent states of `count` sequences or snapshots, counting each layer as recurrent; the same limit.
  std::uint64_t state_bytes(std::uint64_t count) const;
};

}  // namespace specdec
