#include "weights/blocks/format.h"

#include "base/half.h"
#include "weights/blocks/layouts.h"

namespace specdec::blocks {

Stored32 stored(Type type, const std::uint8_t* block, int part) noexcept { return stored_in_file(type, block, part); }

float unit_scale(Type type, const Stored32& stored, int half) noexcept {
  const std::uint16_t d = stored.d[half];
  return (has_bfloat_scales(type) ? bfloat_to_float(d) : half_to_float(d)) * format_of(type).unit;
}

Weights32 decode(Type type, const Stored32& stored) noexcept {
  Weights32 w{};
  const float m = half_to_float(stored.m) * format_of(type).unit;
  for (int i = 0; i < 32; ++i) w.code[i] = code_of(type, stored.code[i]);
  for (int g = 0; g < 2; ++g) {
    w.scale[g] = unit_scale(type, stored, g) * static_cast<float>(stored.scale_code[g]);
    w.offset[g] = format_of(type).offsets ? -(m * static_cast<float>(stored.offset_code[g])) : 0.0f;
  }
  return w;
}

Weights32 decode(Type type, const std::uint8_t* block, int part) noexcept {
  return decode(type, stored(type, block, part));
}

}  // namespace specdec::blocks
