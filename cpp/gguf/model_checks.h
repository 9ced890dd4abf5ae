// Checks the values of a model's metadata that llama.cpp and ggml's operations trust, before they see the file.
#pragma once

#include <string>

#include "gguf/gguf_file.h"

namespace specdec {

// The kind of a GGUF file that belongs to a model but is none: "a LoRA adapter"; "" for models and drafting heads.
std::string kind_beside_a_model(const GgufFile& file);

// Throws ModelError for files that are no model, and for values that would make llama.cpp abort, loop for ever or read
// outside its tensors: hyperparameters that are out of range or inconsistent, duplicate tokens, vocabularies that its
// tokenizer cannot handle.
void check_model_metadata(const GgufFile& file);

}  // namespace specdec
