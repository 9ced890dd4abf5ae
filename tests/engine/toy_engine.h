// The scheduler and the decoder over toy models, as tests drive them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "llama/model.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/toy_model.h"

namespace toy {

constexpr int vocabulary_size = 16;

// A bundled model's (MODELS is their folder): toy tokens are the first of these.
inline specdec::Vocabulary vocabulary() {
  static const specdec::Model model(std::string(MODELS) + "stdlib-draft-f16.gguf");
  return model.vocabulary();
}

inline std::vector<Token> prompt_of(int length, std::uint64_t seed) {
  std::vector<Token> tokens;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(length); ++i) {
    tokens.push_back(static_cast<Token>(mix(seed * 1000 + i) % vocabulary_size));
  }
  return tokens;
}

}  // namespace toy
