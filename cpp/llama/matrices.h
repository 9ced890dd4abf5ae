// The matrices of a loaded model that its products read.
#pragma once

#include <vector>

struct ggml_tensor;
struct llama_model;

namespace specdec {

struct Matrix {
  ggml_tensor* weights;
  bool is_output;
};

// Those in mapped files, whose pages can be released; each once. The embedding counts only if it is also the output
// matrix.
std::vector<Matrix> matrices_of(const llama_model* model);

// For a model that is larger than the memory, or drafts for one, once its copies are made: what stays in its mapped
// files (embeddings, rows of a draft's output) is read here and there.
void expect_random_reads(const llama_model* model);

}  // namespace specdec
