// The matrices of a model that is larger than its memory, in the layout that the kernels use: parts of each stay, and
// the others are read from the disk during every pass (streaming/weight_stream.h). Of experts, those that are used most
// stay (streaming/piece_cache.h).
//
// What stays of single matrices is fixed and spread evenly over the order of a pass, so that computing with it hides
// the reading of what is streamed: a cache that keeps what was used last would hold nothing that a pass needs next.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "graph/blocks.h"
#include "graph/cached_experts.h"
#include "graph/streamed_matrix.h"
#include "llama/tile_cache.h"
#include "llama/weight_sources.h"
#include "llama/weight_tiles.h"
#include "streaming/piece_cache.h"
#include "streaming/slot_memory.h"
#include "streaming/weight_stream.h"

struct llama_model;

namespace specdec {

class ExpertPieces;
class WeightParts;

// Bytes of a model's matrices.
struct StreamedBytes {
  std::uint64_t total = 0;
  std::uint64_t stay = 0;      // of single matrices
  std::uint64_t streamed = 0;  // of single matrices: read in every pass
  std::uint64_t experts = 0;   // of all experts
  std::uint64_t slots = 0;     // room for experts
  std::uint64_t copies = 0;    // rounded ones, which drafts read
};

// Where weights are read from, and what reads them.
struct StreamedFiles {
  const std::vector<GgufFile>& files;  // the model's
  const ModelFiles& state;             // of these
  TileCache& cache;                    // has the file of tiles
};

class StreamedWeights {
 public:
  struct Options {
    std::uint64_t memory;  // bytes for all of this; with less than least_memory() it takes that
    bool with_head;        // the target's own drafting head reads its layers and the output between passes: they stay
    int num_threads;       // of passes
    TileWeights copies = TileWeights::exact;  // these bits have the copies that drafts read; exact: there are none
  };
  // The memory includes that of the copies, which are made afterwards. Must outlive the model. Calls progress(share
  // done) on this thread; it may throw to stop. Throws Error, std::bad_alloc.
  StreamedWeights(const llama_model* model, const StreamedFiles& from, const Options& options,
                  const std::function<void(double)>& progress);

  // Bytes, with the copies; options.memory does not matter.
  static std::uint64_t least_memory(const llama_model* model, const std::vector<GgufFile>& files,
                                    const Options& options);

  const StreamedBytes& bytes() const { return bytes_; }
  bool reads_from_disk() const { return bytes_.streamed > 0 || bytes_.slots < bytes_.experts; }
  double bytes_per_second() const { return bytes_per_second_; }  // of the disk, measured while this was made
  // Why weights could not be read since the last call; empty: all could.
  std::string take_problem() const;

 private:
  void use_single(const WeightParts& parts, const std::vector<std::string>& paths);
  void use_experts(const ExpertPieces& pieces, const llama_model* model);
  void make_layers(const ExpertPieces& pieces, const llama_model* model);
  void use(const WeightSource& source, const BlockTiles& tiles);

  StreamedBytes bytes_;
  double bytes_per_second_ = 0;
  std::unique_ptr<SlotMemory> resident_;
  std::unique_ptr<WeightStream> stream_;
  std::unique_ptr<PieceCache> experts_;
  std::deque<StreamedMatrix> matrices_;
  std::map<int, ExpertLayer> layers_;  // by number
  std::deque<NextRouter> routers_;
  std::deque<CachedExperts> cached_;
  std::deque<BlockTiles> tiles_;  // tensors point to these
};

}  // namespace specdec
