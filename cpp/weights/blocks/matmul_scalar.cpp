// Decoding and multiplying one by one: the reference for the others, and what runs where there is no kernel of its own.
#include <cstring>

#include "weights/blocks/matmul.h"

namespace specdec::blocks {
namespace {

float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// IEEE 754 half to single: exact.
float half(const std::uint8_t* bytes) {
  std::uint16_t h;
  std::memcpy(&h, bytes, sizeof h);
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return float_of(sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13);
}

// Bit i of a little-endian number.
int bit(const std::uint8_t* bytes, int i) { return bytes[i / 8] >> (i % 8) & 1; }
// 4 bits of a block of 32: column i in the low half of byte i, column 16 + i in its high half.
int nibble(const std::uint8_t* bytes, int i) { return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4; }

void set_scales(Weights32& w, float scale, float offset = 0.0f) {
  w.scale[0] = w.scale[1] = scale;
  w.offset[0] = w.offset[1] = offset;
}

template <class Code>
void set_codes(Weights32& w, Code code) {
  for (int i = 0; i < 32; ++i) w.code[i] = static_cast<std::int8_t>(code(i));
}

// Q4_K and Q5_K: 6-bit scales and minima of 8 groups in 12 bytes.
void set_k4_scales(Weights32& w, const std::uint8_t* block, int group) {
  const std::uint8_t* s = block + 4;
  const int scale = group < 4 ? s[group] & 63 : (s[group + 4] & 15) | s[group - 4] >> 6 << 4;
  const int minimum = group < 4 ? s[group + 4] & 63 : s[group + 4] >> 4 | s[group] >> 6 << 4;
  set_scales(w, half(block) * static_cast<float>(scale), -(half(block + 2) * static_cast<float>(minimum)));
}

std::uint32_t magnitude_bits(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffffu;
}

// Nearest even for |x| < 2^22.
int rounded(float x) { return static_cast<int>((x + 0x1.8p23f) - 0x1.8p23f); }

float dot(const std::int8_t* w, const std::int8_t* x, int count) {
  std::int32_t sum = 0;
  for (int i = 0; i < count; ++i) sum += w[i] * x[i];
  return static_cast<float>(sum);
}

void matmul(const Matrix& m, const PanelBlock* panel, std::int64_t n, std::int64_t row_begin, std::int64_t row_end, float* out,
            std::int64_t ldo, void*) noexcept {
  const Format& format = format_of(m.type);
  const std::int64_t blocks = m.k / block_size;
  const int parts = format.columns / block_size;
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const std::uint8_t* weights = m.weights + row * m.row_bytes;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const Weights32 w = decode(m.type, weights + block / parts * format.bytes, static_cast<int>(block % parts));
      for (std::int64_t c = 0; c < n; ++c) {
        const PanelBlock& x = panel[panel_place(n, m.k, c, block)];
        float& y = out[c * ldo + row];
        float acc = block == 0 ? 0.0f : y;
        for (int group = 0; group < block_size / format.group; ++group) {
          const int first = group * format.group;
          acc = __builtin_fmaf(dot(w.code + first, x.codes + first, format.group), w.scale[group] * x.scale, acc);
          if (format.offsets) acc = __builtin_fmaf(w.offset[group], x.sums[group], acc);
        }
        y = acc;
      }
    }
  }
}

}  // namespace

Weights32 decode(Type type, const std::uint8_t* block, int part) noexcept {
  Weights32 w{};
  switch (type) {
    case Type::q4_0:
      set_scales(w, half(block));
      set_codes(w, [&](int i) { return nibble(block + 2, i) - 8; });
      break;
    case Type::q4_1:
      set_scales(w, half(block), half(block + 2));
      set_codes(w, [&](int i) { return nibble(block + 4, i); });
      break;
    case Type::q5_0:
      set_scales(w, half(block));
      set_codes(w, [&](int i) { return (nibble(block + 6, i) | bit(block + 2, i) << 4) - 16; });
      break;
    case Type::q5_1:
      set_scales(w, half(block), half(block + 2));
      set_codes(w, [&](int i) { return nibble(block + 8, i) | bit(block + 4, i) << 4; });
      break;
    case Type::q8_0:
      set_scales(w, half(block));
      std::memcpy(w.code, block + 2, sizeof w.code);
      break;
    case Type::iq4_nl:
      set_scales(w, half(block));
      set_codes(w, [&](int i) { return iq4_values[nibble(block + 2, i)]; });
      break;
    case Type::iq4_xs: {  // d, 8 times 2 high bits of scales, 8 times 4 low bits, nibbles
      const int low = block[4 + part / 2] >> (4 * (part % 2)) & 15, high = block[2 + part / 4] >> (2 * (part % 4)) & 3;
      set_scales(w, half(block) * static_cast<float>((low | high << 4) - 32));
      set_codes(w, [&](int i) { return iq4_values[nibble(block + 8 + 16 * part, i)]; });
      break;
    }
    case Type::q2_k:  // 16 times (minimum, scale) in 4 bits each; per 128 columns 32 bytes, whose bit pairs are parts; d, dmin
      set_codes(w, [&](int i) { return block[16 + part / 4 * 32 + i] >> (2 * (part % 4)) & 3; });
      for (int g = 0; g < 2; ++g) {
        const int scales = block[2 * part + g];
        w.scale[g] = half(block + 80) * static_cast<float>(scales & 15);
        w.offset[g] = -(half(block + 82) * static_cast<float>(scales >> 4));
      }
      break;
    case Type::q3_k:  // 32 bytes of the third bits, one part per bit; two bits as Q2_K; 16 scales in 12 bytes; d
      set_codes(w, [&](int i) { return (block[32 + part / 4 * 32 + i] >> (2 * (part % 4)) & 3) + 4 * (block[i] >> part & 1) - 4; });
      for (int g = 0; g < 2; ++g) {
        const int group = 2 * part + g;
        const int low = group < 8 ? block[96 + group] & 15 : block[96 + group - 8] >> 4;
        const int high = block[96 + 8 + group % 4] >> (2 * (group / 4)) & 3;
        w.scale[g] = half(block + 108) * static_cast<float>((low | high << 4) - 32);
      }
      break;
    case Type::q4_k:  // d, dmin, scales; per 64 columns 32 bytes: the first part in the low halves
      set_k4_scales(w, block, part);
      set_codes(w, [&](int i) { return block[16 + part / 2 * 32 + i] >> (4 * (part % 2)) & 15; });
      break;
    case Type::q5_k:  // d, dmin, scales; 32 bytes of the fifth bits, one part per bit; four bits as Q4_K
      set_k4_scales(w, block, part);
      set_codes(w, [&](int i) { return (block[48 + part / 2 * 32 + i] >> (4 * (part % 2)) & 15) | (block[16 + i] >> part & 1) << 4; });
      break;
    case Type::q6_k: {  // per 128 columns: 64 bytes of low halves, 32 bytes of bit pairs, one part per pair; 16 scales; d
      const std::uint8_t *low = block + part / 4 * 64 + part % 2 * 32, *high = block + 128 + part / 4 * 32;
      const int place = part % 4;
      set_codes(w, [&](int i) { return ((low[i] >> (place / 2 * 4) & 15) | (high[i] >> (2 * place) & 3) << 4) - 32; });
      for (int g = 0; g < 2; ++g) {
        w.scale[g] = half(block + 208) * static_cast<float>(static_cast<std::int8_t>(block[192 + 2 * part + g]));
      }
      break;
    }
  }
  return w;
}

void pack_scalar(Type type, const float* x, std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t block_begin,
                 std::int64_t block_end, PanelBlock* panel) noexcept {
  const Format& format = format_of(type);
  for (std::int64_t block = block_begin; block < block_end; ++block) {
    const float* from = x + block * block_size;
    PanelBlock to{};
    std::uint32_t largest = 0;
    for (int i = 0; i < block_size; ++i) largest = magnitude_bits(from[i]) > largest ? magnitude_bits(from[i]) : largest;
    int sum[2] = {0, 0};  // of groups
    if (largest >= 0x7f800000u) {
      to.scale = float_of(0x7fc00000u);
    } else if (float_of(largest) >= tiny_block) {
      const float inverse = 127.0f / float_of(largest);
      to.scale = float_of(largest) / 127.0f;
      for (int i = 0; i < block_size; ++i) {
        to.codes[i] = static_cast<std::int8_t>(rounded(from[i] * inverse));
        sum[i / format.group] += to.codes[i];
      }
    }
    for (int i = 0; i < 2; ++i) {
      to.sums[i] = to.scale * static_cast<float>(sum[i]);
      to.corrections[i] = format.lowest * sum[i];
    }
    panel[panel_place(n, k, column, block)] = to;
  }
}

const Kernels kernels_scalar = {"scalar", 0, pack_scalar, matmul};

}  // namespace specdec::blocks
