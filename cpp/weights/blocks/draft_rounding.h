// Rounds weights to fewer bits for drafts: F32 to Q4_0 and Q1_0, with the same bits as ggml's quantizers in a fraction
// of the time.
#pragma once

#include <cstdint>

#include "weights/blocks/format.h"

namespace specdec::blocks {

static constexpr bool can_round_to(Type type) { return type == Type::q4_0 || type == Type::q1_0; }

// f32 [rows, k] -> rows of blocks, one after another. k is a multiple of the type's block.
void round_rows(Type type, const float* x, std::int64_t rows, std::int64_t k, std::uint8_t* to) noexcept;

}  // namespace specdec::blocks
