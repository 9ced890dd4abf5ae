#include "llama/head_output.h"

#include <algorithm>

#include "graph/blocks.h"
#include "llama-model.h"

namespace specdec {
namespace {

struct Output {
  ggml_tensor** of_head;  // where the head's graph looks first
  ggml_tensor* matrix;
};

Output output_of(llama_model* head, HeadKind kind, const llama_model* target) {
  ggml_tensor** own = &head->output;
  if (kind == HeadKind::mtp) {
    const auto first = std::find_if(head->layers.begin(), head->layers.end(),
                                    [](const llama_layer& l) { return l.nextn.eh_proj != nullptr; });
    if (first != head->layers.end()) own = &first->nextn.shared_head_head;
  }
  const bool uses_targets = kind == HeadKind::eagle3 || kind == HeadKind::block;
  ggml_tensor* const others = uses_targets ? target->output : head->output;
  return {own, *own != nullptr ? *own : others};
}

// llama.cpp's graphs on other devices keep what they need in `extra`.
bool can_have_signs(const ggml_tensor* matrix) {
  if (matrix == nullptr || matrix->buffer == nullptr || !ggml_backend_buffer_is_host(matrix->buffer)) return false;
  return finds_best_rows(matrix) && (tiles_of(matrix) == nullptr || tiles_of(matrix)->signs == nullptr);
}

}  // namespace

std::uint64_t HeadOutput::bytes_of(llama_model* head, HeadKind kind, const llama_model* target) {
  ggml_tensor* const matrix = output_of(head, kind, target).matrix;
  return can_have_signs(matrix) ? TileMemory::bytes_of({{matrix, GGML_TYPE_Q1_0}}) : 0;
}

HeadOutput::HeadOutput(llama_model* head, HeadKind kind, const llama_model* target, int num_threads,
                       const std::function<void(double)>& progress) {
  const Output output = output_of(head, kind, target);
  memory_ = std::make_unique<TileMemory>(std::vector<TileCopy>{{output.matrix, GGML_TYPE_Q1_0}}, num_threads, progress);
  tiles_ = tiles_of(output.matrix) != nullptr ? *tiles_of(output.matrix) : BlockTiles{output.matrix->type, nullptr};
  tiles_.signs = memory_->tiles(0);
  matrix_ = std::make_unique<ggml_tensor>(*output.matrix);
  use_tiles(matrix_.get(), &tiles_);
  *output.of_head = matrix_.get();
}

HeadOutput::~HeadOutput() = default;

}  // namespace specdec
