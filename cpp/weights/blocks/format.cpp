#include "weights/blocks/format.h"

#include <cstring>

#include "base/half.h"

namespace specdec::blocks {
namespace {

std::uint16_t read16(const std::uint8_t* bytes) {
  std::uint16_t value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

void set_scale(Stored32& w, const std::uint8_t* d, int code = 1) {
  w.d = read16(d);
  w.scale_code[0] = w.scale_code[1] = static_cast<std::int8_t>(code);
}
void set_offset(Stored32& w, const std::uint8_t* m, int code = -1) {
  w.m = read16(m);
  w.offset_code[0] = w.offset_code[1] = static_cast<std::int8_t>(code);
}

// 4 bits of a block of 32: column i in the low half of byte i, column 16 + i in its high half.
void set_nibbles(Stored32& w, const std::uint8_t* bytes) {
  for (int i = 0; i < 16; ++i) {
    w.code[i] = bytes[i] & 15;
    w.code[16 + i] = bytes[i] >> 4;
  }
}
// The fifth bits: bit i of a little-endian number.
void add_fifth_bits(Stored32& w, const std::uint8_t* bytes) {
  std::uint32_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  for (int i = 0; i < 32; ++i) w.code[i] = static_cast<std::uint8_t>(w.code[i] | (bits >> i & 1) << 4);
}
// `mask` of every byte after a shift, `to` bits up in every code.
void add_bits(Stored32& w, const std::uint8_t* bytes, int shift, int mask, int to = 0) {
  for (int i = 0; i < 32; ++i) w.code[i] = static_cast<std::uint8_t>(w.code[i] | (bytes[i] >> shift & mask) << to);
}

// Q4_K and Q5_K: d, dmin, then 6-bit scales and minima of 8 groups in 12 bytes.
void set_k4_scales(Stored32& w, const std::uint8_t* block, int group) {
  const std::uint8_t* s = block + 4;
  set_scale(w, block, group < 4 ? s[group] & 63 : (s[group + 4] & 15) | s[group - 4] >> 6 << 4);
  set_offset(w, block + 2, group < 4 ? s[group + 4] & 63 : s[group + 4] >> 4 | s[group] >> 6 << 4);
}

}  // namespace

Stored32 stored(Type type, const std::uint8_t* block, int part) noexcept {
  Stored32 w{};
  switch (type) {
    case Type::q1_0:  // d, then bit i of a little-endian number
      set_scale(w, block);
      for (int i = 0; i < 32; ++i) w.code[i] = block[2 + 4 * part + i / 8] >> (i % 8) & 1;
      break;
    case Type::q4_0:
    case Type::iq4_nl:
      set_scale(w, block);
      set_nibbles(w, block + 2);
      break;
    case Type::q4_1:
      set_scale(w, block);
      set_offset(w, block + 2);
      set_nibbles(w, block + 4);
      break;
    case Type::q5_0:
      set_scale(w, block);
      set_nibbles(w, block + 6);
      add_fifth_bits(w, block + 2);
      break;
    case Type::q5_1:
      set_scale(w, block);
      set_offset(w, block + 2);
      set_nibbles(w, block + 8);
      add_fifth_bits(w, block + 4);
      break;
    case Type::q8_0:
      set_scale(w, block);
      std::memcpy(w.code, block + 2, sizeof w.code);
      break;
    case Type::iq4_xs: {  // d, 8 times 2 high bits of scales, 8 times 4 low bits, nibbles
      const int low = block[4 + part / 2] >> (4 * (part % 2)) & 15, high = block[2 + part / 4] >> (2 * (part % 4)) & 3;
      set_scale(w, block, (low | high << 4) - 32);
      set_nibbles(w, block + 8 + 16 * part);
      break;
    }
    case Type::q2_k:  // 16 times (minimum, scale) in 4 bits each; per 128 columns 32 bytes, whose bit pairs are parts; d, dmin
      set_scale(w, block + 80);
      set_offset(w, block + 82);
      for (int g = 0; g < 2; ++g) {
        w.scale_code[g] = static_cast<std::int8_t>(block[2 * part + g] & 15);
        w.offset_code[g] = static_cast<std::int8_t>(block[2 * part + g] >> 4);
      }
      add_bits(w, block + 16 + part / 4 * 32, 2 * (part % 4), 3);
      break;
    case Type::q3_k:  // 32 bytes of the third bits, one part per bit; two bits as Q2_K; 16 scales in 12 bytes; d
      set_scale(w, block + 108);
      for (int g = 0; g < 2; ++g) {
        const int group = 2 * part + g;
        const int low = group < 8 ? block[96 + group] & 15 : block[96 + group - 8] >> 4;
        const int high = block[96 + 8 + group % 4] >> (2 * (group / 4)) & 3;
        w.scale_code[g] = static_cast<std::int8_t>((low | high << 4) - 32);
      }
      add_bits(w, block + 32 + part / 4 * 32, 2 * (part % 4), 3);
      add_bits(w, block, part, 1, 2);
      break;
    case Type::q4_k:  // d, dmin, scales; per 64 columns 32 bytes: the first part in the low halves
      set_k4_scales(w, block, part);
      add_bits(w, block + 16 + part / 2 * 32, 4 * (part % 2), 15);
      break;
    case Type::q5_k:  // d, dmin, scales; 32 bytes of the fifth bits, one part per bit; four bits as Q4_K
      set_k4_scales(w, block, part);
      add_bits(w, block + 48 + part / 2 * 32, 4 * (part % 2), 15);
      add_bits(w, block + 16, part, 1, 4);
      break;
    case Type::q6_k:  // per 128 columns: 64 bytes of low halves, 32 bytes of bit pairs, one part per pair; 16 scales; d
      set_scale(w, block + 208);
      for (int g = 0; g < 2; ++g) w.scale_code[g] = static_cast<std::int8_t>(block[192 + 2 * part + g]);
      add_bits(w, block + part / 4 * 64 + part % 2 * 32, part % 4 / 2 * 4, 15);
      add_bits(w, block + 128 + part / 4 * 32, 2 * (part % 4), 3, 4);
      break;
  }
  return w;
}

Weights32 decode(Type type, const Stored32& stored) noexcept {
  Weights32 w{};
  for (int i = 0; i < 32; ++i) {
    w.code[i] = has_table(type)      ? iq4_values[stored.code[i]]
                : type == Type::q8_0 ? static_cast<std::int8_t>(stored.code[i])
                                     : static_cast<std::int8_t>(format_of(type).lowest + format_of(type).step * stored.code[i]);
  }
  for (int g = 0; g < 2; ++g) {
    w.scale[g] = half_to_float(stored.d) * static_cast<float>(stored.scale_code[g]);
    w.offset[g] = format_of(type).offsets ? -(half_to_float(stored.m) * static_cast<float>(stored.offset_code[g])) : 0.0f;
  }
  return w;
}

Weights32 decode(Type type, const std::uint8_t* block, int part) noexcept { return decode(type, stored(type, block, part)); }

}  // namespace specdec::blocks
