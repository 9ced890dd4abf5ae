// Tensors that a model's graph uses and its file lacks.
#pragma once

#include <string>

struct llama_model;

namespace specdec {

// llama.cpp's loader takes many tensors for optional that the graph of the architecture then reads all the same; ggml's
// assertion that they are there (third_party/llama.cpp/patches/0005-absent-tensors.patch) is among `errors` then,
// llama.cpp's own. The tensors that may be meant, in a sentence; empty: the errors are about something else.
std::string absent_tensors(const llama_model* model, const std::string& errors);

}  // namespace specdec
