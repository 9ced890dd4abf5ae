// Shared by the ARM kernels: vectors of four rows, signed codes. Included by one file per instruction set, in an
// anonymous namespace, before matmul_kernel.h.

#define SPECDEC_INLINE inline __attribute__((always_inline))

using Codes = int8x16_t;
using Ints = int32x4_t;
using Floats = float32x4_t;
constexpr int vector_rows = 4;
constexpr int columns_at_once = 4;
constexpr int repeats_in_registers = 2;
constexpr int slow_repeats_in_registers = 2;

SPECDEC_INLINE Codes load_codes(const std::uint8_t* p) { return vreinterpretq_s8_u8(vld1q_u8(p)); }
SPECDEC_INLINE void store_codes(std::uint8_t* p, Codes v) { vst1q_u8(p, vreinterpretq_u8_s8(v)); }
SPECDEC_INLINE Codes either(Codes a, Codes b) { return vorrq_s8(a, b); }
SPECDEC_INLINE Codes as_codes(Ints v) { return vreinterpretq_s8_s32(v); }
SPECDEC_INLINE Codes field(Codes v, int shift, int mask) {
  const uint8x16_t moved = vshlq_u8(vreinterpretq_u8_s8(v), vdupq_n_s8(static_cast<std::int8_t>(-shift)));
  return vreinterpretq_s8_u8(vandq_u8(moved, vdupq_n_u8(static_cast<std::uint8_t>(mask))));
}
SPECDEC_INLINE Floats load_floats(const float* p) { return vld1q_f32(p); }
SPECDEC_INLINE void store_floats(float* p, Floats v) { vst1q_f32(p, v); }
SPECDEC_INLINE Floats load_halves(const std::uint8_t* p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }
SPECDEC_INLINE Floats load_bfloats(const std::uint8_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}
SPECDEC_INLINE Ints load_bytes(const std::uint8_t* p) {  // signed
  std::int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)))));
}
SPECDEC_INLINE Ints load_ints(const std::int32_t* p) { return vld1q_s32(p); }
SPECDEC_INLINE void store_ints(std::int32_t* p, Ints v) { vst1q_s32(p, v); }
SPECDEC_INLINE Ints broadcast_ints(std::int32_t x) { return vdupq_n_s32(x); }
SPECDEC_INLINE Ints by_sign(const std::uint8_t* p, std::int32_t negative, std::int32_t positive) {
  return vbslq_s32(vcltzq_s32(load_bytes(p)), broadcast_ints(negative), broadcast_ints(positive));
}
SPECDEC_INLINE Ints load_pairs(const std::uint8_t* p) {
  return vsliq_n_s32(load_bytes(p), load_bytes(p + tile_rows), 16);
}
SPECDEC_INLINE Floats negative(Floats v) { return vnegq_f32(v); }
SPECDEC_INLINE Floats broadcast(float x) { return vdupq_n_f32(x); }
SPECDEC_INLINE Floats to_floats(Ints v) { return vcvtq_f32_s32(v); }
SPECDEC_INLINE Floats multiplied(Floats a, Floats b) { return vmulq_f32(a, b); }
SPECDEC_INLINE Floats fused(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }

// gcc has no intrinsic for stores past the caches.
SPECDEC_INLINE void stream_row(float* out, const float* row) { __builtin_memcpy(out, row, 16 * sizeof(float)); }
SPECDEC_INLINE void finish_streams() {}

template <Type type>
constexpr bool signed_bytes = true;
constexpr bool multiplies_sums = false;
template <Type type>
constexpr std::int64_t folding_pays = INT64_MAX;  // not tried

template <Type type>
SPECDEC_INLINE Codes finished(Codes code) {
  if constexpr (has_table(type)) return vqtbl1q_s8(vld1q_s8(table_of(type)), vreinterpretq_u8_s8(code));
  else if constexpr (type == Type::q8_0) return code;
  else return vaddq_s8(code, vdupq_n_s8(has_eighths(type) ? lowest_eighth : format_of(type).lowest));
}

// Decodes with the reference code: faster decoding would help only passes of few columns.
template <Type type>
void decode_tile(const std::uint8_t* w, std::int64_t row_bytes, std::int64_t blocks, const std::uint8_t*,
                 DecodedTile& tile) {
  constexpr Format format = format_of(type);
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (int row = 0; row < tile_rows; ++row) {
      for (int part = 0; part < format.columns / 32; ++part) {
        const Stored32 numbers = stored(type, w + row * row_bytes + block * format.bytes, part);
        Weights32 weights = decode(type, numbers);
        const std::int64_t column = block * format.columns + 32 * part, group = column / format.group;
        if constexpr (has_eighths(type)) {
          for (std::int8_t& code : weights.code)
            code = static_cast<std::int8_t>(8 * code + (numbers.offset_code[0] < 0 ? 1 : -1));
          weights.scale[0] /= 8;
        }
        for (int i = 0; i < 8; ++i) __builtin_memcpy(tile.codes[column / 4 + i][row], weights.code + 4 * i, 4);
        if constexpr (adds_groups(type)) {
          tile.scale[column / 32][row] = unit_scale(type, numbers, 0);
          tile.scale_codes[column / 32][row] = numbers.scale_code[1] * 65536 | (numbers.scale_code[0] & 0xFFFF);
        }
        for (int i = 0; i < 32 / format.group; ++i) {
          if constexpr (!adds_groups(type)) tile.scale[group + i][row] = weights.scale[i];
          tile.offset[group + i][row] = weights.offset[i];
        }
      }
    }
  }
}
