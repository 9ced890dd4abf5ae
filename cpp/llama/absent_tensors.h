// Finds tensors that a model's graph uses but its file lacks.
#pragma once

#include <string>

struct llama_model;

namespace specdec {

// llama.cpp's loader treats many tensors as optional that the architecture's graph nevertheless reads. ggml's assertion
// that they exist (third_party/llama.cpp/patches/0005-absent-tensors.patch) is then among llama.cpp's `errors`. Returns
// a sentence with the tensors that may be meant; empty if the errors are about something else.
std::string absent_tensors(const llama_model* model, const std::string& errors);

}  // namespace specdec
