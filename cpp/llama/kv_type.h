// How the KV cache holds keys and values.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace specdec {

enum class KvType {
  f16,   // 16 bits each
  q8_0,  // 8.5 bits: blocks of 32 int8 with an F16 scale; heads must be multiples of 32 wide
};

inline KvType parse_kv_type(const std::string& name) {
  if (name == "f16") return KvType::f16;
  if (name == "q8_0") return KvType::q8_0;
  throw std::invalid_argument("kv_type is \"" + name + "\"; it must be \"f16\" or \"q8_0\"");
}

// Of so many keys and values of one head.
inline std::uint64_t cache_bytes(std::uint64_t numbers, KvType type) { return type == KvType::q8_0 ? numbers * 34 / 32 : numbers * 2; }

}  // namespace specdec
