#include "llama/head_output.h"

#include <algorithm>

#include "graph/blocks.h"
#include "llama-model.h"

namespace specdec {
namespace {

struct Output {
  ggml_tensor* matrix;
  std::vector<ggml_tensor**> of_head;  // where the graphs of the head's layers look first
};

// Backends of other devices keep what they need in `extra`.
bool can_have_signs(const ggml_tensor* matrix) {
  if (matrix == nullptr || matrix->buffer == nullptr || !ggml_backend_buffer_is_host(matrix->buffer)) return false;
  return finds_best_rows(matrix) && (tiles_of(matrix) == nullptr || tiles_of(matrix)->signs == nullptr);
}

// The output matrices that can have signs; layers may share one.
std::vector<Output> outputs_of(llama_model* head, HeadKind kind, const llama_model* target) {
  const bool uses_targets = kind == HeadKind::eagle3 || kind == HeadKind::block;
  ggml_tensor* const others = uses_targets ? target->output : head->output;
  std::vector<ggml_tensor**> places;
  if (kind == HeadKind::mtp) {
    for (llama_layer& layer : head->layers) {
      if (layer.nextn.eh_proj != nullptr) places.push_back(&layer.nextn.shared_head_head);
    }
  }
  if (places.empty()) places.push_back(&head->output);
  std::vector<Output> outputs;
  for (ggml_tensor** const place : places) {
    ggml_tensor* const matrix = *place != nullptr ? *place : others;
    if (!can_have_signs(matrix)) continue;
    const auto same = std::find_if(outputs.begin(), outputs.end(), [&](const Output& o) { return o.matrix == matrix; });
    if (same != outputs.end()) same->of_head.push_back(place);
    else outputs.push_back({matrix, {place}});
  }
  return outputs;
}

std::vector<TileCopy> copies_of(const std::vector<Output>& outputs) {
  std::vector<TileCopy> copies;
  for (const Output& output : outputs) copies.push_back({output.matrix, GGML_TYPE_Q1_0});
  return copies;
}

}  // namespace

struct HeadOutput::Copy {
  ggml_tensor matrix;  // in the memory of the matrix that it stands for
  BlockTiles tiles;
};

std::uint64_t HeadOutput::bytes_of(llama_model* head, HeadKind kind, const llama_model* target) {
  return TileMemory::bytes_of(copies_of(outputs_of(head, kind, target)));
}

HeadOutput::HeadOutput(llama_model* head, HeadKind kind, const llama_model* target, int num_threads,
                       const std::function<void(double)>& progress) {
  const std::vector<Output> outputs = outputs_of(head, kind, target);
  memory_ = std::make_unique<TileMemory>(copies_of(outputs), num_threads, progress);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const BlockTiles* const tiles = tiles_of(outputs[i].matrix);
    copies_.push_back(std::make_unique<Copy>(
        Copy{*outputs[i].matrix, tiles != nullptr ? *tiles : BlockTiles{outputs[i].matrix->type, nullptr}}));
    Copy& copy = *copies_.back();
    copy.tiles.signs = memory_->tiles(i);
    use_tiles(&copy.matrix, &copy.tiles);
    for (ggml_tensor** const of_head : outputs[i].of_head) *of_head = &copy.matrix;
  }
}

HeadOutput::~HeadOutput() = default;

}  // namespace specdec
