// The output matrices of a drafting head, with copies of their signs: the head finds its logits in two passes
// (graph/best_rows.h), while the target, whose matrix it mostly is, multiplies all of it. For a large vocabulary that
// matrix is most of what a head reads.
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
  // Bytes that the copy takes; 0: none would help, or there is one. head: a model, of which this kind of head is
  // loaded, or its file's.
  static std::uint64_t bytes_of(llama_model* head, HeadKind kind, const llama_model* target);

  // Lives longer than both models. Once the weights have their tiles. Threads, progress and errors: TileMemory.
  HeadOutput(llama_model* head, HeadKind kind, const llama_model* target, int num_threads,
             const std::function<void(double)>& progress);
  ~HeadOutput();

 private:
  struct Copy;
  std::unique_ptr<TileMemory> memory_;
  std::vector<std::unique_ptr<Copy>> copies_;
};

}  // namespace specdec
