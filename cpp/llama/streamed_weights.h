// The matrices of a model that is larger than its memory: parts of each stay, the others are read from the disk during
// every pass (streaming/weight_stream.h), in the layout that the kernels use.
//
// What stays is fixed and spread evenly over the order of a pass, so that computing with it hides the reading of what
// is streamed: a cache that keeps what was used last would hold nothing that a pass needs next. Stock types are read
// from a file of tiles (llama/tile_file.h), F16, BF16 and MXFP6 from the model's own files.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/blocks.h"
#include "graph/streamed_matrix.h"
#include "gguf/gguf_file.h"
#include "llama/tile_cache.h"
#include "streaming/slot_memory.h"
#include "streaming/weight_stream.h"

struct llama_model;

namespace specdec {

// Bytes of a model's matrices.
struct StreamedBytes {
  std::uint64_t total = 0, stay = 0;
  std::uint64_t slots = 0;  // memory for what is streamed
  std::uint64_t streamed() const { return total - stay; }
};

class StreamedWeights {
 public:
  // files: the model's, with their state. memory: bytes for all of this; with less than least_memory() it takes that.
  // resident_output: the output matrix stays, since a drafting head reads it between passes. Must outlive the model.
  // Calls progress(share done) on this thread; it may throw to stop. Throws Error, std::bad_alloc.
  StreamedWeights(const llama_model* model, const std::vector<GgufFile>& files, const ModelFiles& state,
                  TileCache& cache, std::uint64_t memory, bool resident_output, int num_threads,
                  const std::function<void(double)>& progress);

  static std::uint64_t least_memory(const llama_model* model, const std::vector<GgufFile>& files, bool resident_output);

  const StreamedBytes& bytes() const { return bytes_; }
  WeightStream* stream() const { return stream_.get(); }  // null: all stays
  double bytes_per_second() const { return bytes_per_second_; }  // of the reads while this was made

 private:
  StreamedBytes bytes_;
  double bytes_per_second_ = 0;
  std::unique_ptr<SlotMemory> resident_;
  std::unique_ptr<WeightStream> stream_;
  std::deque<StreamedMatrix> matrices_;
  std::deque<BlockTiles> tiles_;  // tensors point to these
};

}  // namespace specdec
