// Copies of the signs of a drafting head's output matrices. With them the head finds its logits in two passes
// (graph/best_rows.h), while the target, which usually owns the matrix, multiplies all of it. For a large vocabulary
// this matrix is most of what a head reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "graph/blocks.h"
#include "llama/tile_memory.h"
#include "model_file/head_file.h"

struct ggml_tensor;
struct llama_model;

namespace specdec {

class HeadOutput {
 public:
  // Bytes that the copy takes; 0 if a copy would not help or there is one already. head: the model that holds this kind
  // of head, or the model of the head's own file.
  static std::uint64_t bytes_of(llama_model* head, HeadKind kind, const llama_model* target);

  // To be made once the weights have their tiles; must outlive both models. Threads, progress and errors as in
  // TileMemory.
  HeadOutput(llama_model* head, HeadKind kind, const llama_model* target, int num_threads,
             const std::function<void(double)>& progress);
  ~HeadOutput();

 private:
  struct Copy;
  std::unique_ptr<TileMemory> memory_;
  std::vector<std::unique_ptr<Copy>> copies_;
};

}  // namespace specdec
