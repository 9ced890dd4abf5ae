// What files that outlive a process are valid for: kept prefixes, and the costs that "auto" has learnt.
#pragma once

#include <string>

#include "engine/generator_options.h"
#include "engine/loaded_models.h"

namespace specdec {

// All that the bits of a model's cache depend on except the tokens.
struct CacheKey {
  std::string model;  // fingerprint of its file
  std::string kv_type;
  int num_sequences = 1;
  std::string instructions;  // of this processor, as far as kernels use them
  std::string place;         // of layers on devices; empty: the CPU
  std::string weights;       // how a draft's weights may be rounded; empty: not
  int num_head_layers = 0;   // caches of the head in this model's file; 0: caches of the model

  std::string text() const;
};
// Read the models' files. Throw ModelError.
CacheKey target_cache_key(const GeneratorOptions& options, const LoadedModels& models);
CacheKey draft_cache_key(const GeneratorOptions& options, const LoadedModels& models);

// Identifies what times of passes and acceptance depend on: the pair of models, their kinds of weights and caches, and
// this machine.
std::string costs_key(const GeneratorOptions& options, const LoadedModels& models);

}  // namespace specdec
