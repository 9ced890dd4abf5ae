#include "llama/weight_sources.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "ggml.h"
#include "graph/blocks.h"
#include "llama.h"
#include "llama/matrices.h"
#include "llama/tile_file.h"

namespace specdec {
namespace {

// Passes use views of others, such as a matrix for each head.
bool is_used_whole(const ggml_tensor* weights) {
  const bool has_experts = std::strstr(weights->name, "_exps.") != nullptr;
  return weights->ne[1] > 1 && (weights->ne[2] == 1 || has_experts) && weights->ne[3] == 1 &&
         weights->view_src == nullptr && ggml_is_contiguous(weights);
}

// -1: it belongs to no layer.
int layer_of(const ggml_tensor* weights) {
  int layer = -1;
  return std::sscanf(weights->name, "blk.%d.", &layer) == 1 ? layer : -1;
}

std::pair<std::size_t, std::uint64_t> place_in_files(const std::vector<GgufFile>& files, const char* name) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const GgufTensor& tensor : files[i].tensors) {
      if (tensor.name == name) return {i + 1, tensor.offset};
    }
  }
  throw Error(files.front().path + ": the tensor " + name + " is not where the header says; load the model again");
}

}  // namespace

bool WeightSource::has_experts() const { return weights->ne[2] > 1; }
std::int64_t WeightSource::rows() const { return weights->ne[1]; }
std::int64_t WeightSource::num_matrices() const { return weights->ne[2]; }

std::uint64_t WeightSource::bytes_before(std::int64_t row) const {
  const std::int64_t units = (row + unit_rows - 1) / unit_rows;
  return is_tiled ? idx(units) * bytes_of_tile(weights, weights->type) : idx(row) * weights->nb[1];
}

std::uint64_t WeightSource::bytes() const { return idx(num_matrices()) * bytes_of_matrix(); }

WeightSources::WeightSources(const llama_model* model, const std::vector<GgufFile>& files) {
  std::uint64_t tiles_at = tile_file_start();
  for (const auto& [weights, is_output] : matrices_of(model)) {
    if (!is_used_whole(weights) || !has_our_products(weights)) continue;
    const bool is_tiled = can_have_tiles(weights, weights->type);
    if (!is_tiled && is_block_type(weights->type)) continue;
    const auto [file, offset] = is_tiled ? std::pair(file_of_tiles, tiles_at) : place_in_files(files, weights->name);
    const int layer = layer_of(weights);
    sources_.push_back({weights, is_tiled, is_output, layer, layer >= llama_model_n_layer(model), file, offset});
    if (!is_tiled) continue;
    copies_.push_back({weights, weights->type});
    tiles_at += sources_.back().bytes();
  }
  std::stable_partition(sources_.begin(), sources_.end(), [](const WeightSource& source) { return !source.is_output; });
}

std::vector<WeightSource> WeightSources::of_experts(bool are_of_experts) const {
  std::vector<WeightSource> some;
  std::copy_if(sources_.begin(), sources_.end(), std::back_inserter(some),
               [&](const WeightSource& source) { return source.has_experts() == are_of_experts; });
  return some;
}

std::uint64_t bytes_of(const std::vector<WeightSource>& sources) {
  std::uint64_t bytes = 0;
  for (const WeightSource& source : sources) bytes += source.bytes();
  return bytes;
}

}  // namespace specdec
