// Types for a copy of a model in few bits: the matrices whose errors cost most keep more, as in llama.cpp's mixtures.
#pragma once

#include <string_view>

#include "base/weight_types.h"

namespace specdec {

struct WeightMixture {
  BlockType most, outputs, values;  // of the matrices that end attention and feed-forward layers; of attention's values

  BlockType of(std::string_view tensor) const {
    const auto is_a = [tensor](std::string_view part) { return tensor.find(part) != std::string_view::npos; };
    return is_a("attn_v.") ? values : is_a("attn_output.") || is_a("ffn_down") ? outputs : most;
  }
};
constexpr WeightMixture mixture_of_3_bits{BlockType::q3_k, BlockType::q4_k, BlockType::q5_k};
constexpr WeightMixture mixture_of_2_bits{BlockType::q2_k, BlockType::q3_k, BlockType::q4_k};

}  // namespace specdec
