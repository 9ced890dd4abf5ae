// The values of a model's metadata that llama.cpp and ggml's operations trust: checked before they see the file.
#pragma once

#include "gguf/gguf_file.h"

namespace specdec {

// Throws ModelError for what would make llama.cpp abort, loop for ever or read outside its tensors: hyperparameters
// outside their range or inconsistent with each other, tokens given twice, vocabularies that its tokenizer cannot work
// with.
void check_model_metadata(const GgufFile& file);

}  // namespace specdec
