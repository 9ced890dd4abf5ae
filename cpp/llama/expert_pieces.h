// Experts' matrices as pieces of a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "llama/weight_sources.h"
#include "streaming/piece_cache.h"

namespace specdec {

class ExpertPieces {
 public:
  ExpertPieces(std::vector<WeightSource> sources, int num_threads);

  const std::vector<WeightSource>& sources() const { return sources_; }
  // One for each expert of each source, in this order.
  const std::vector<FileRange>& all() const { return pieces_; }

  std::uint64_t least_memory() const;  // bytes
  // Bytes of the slots of these pools, of as many as fit into this memory.
  const std::vector<PieceCache::Pool>& choose(std::uint64_t memory);
  const std::vector<PieceCache::Pool>& pools() const { return pools_; }
  std::uint64_t slots_bytes() const;  // of the experts that fit into the pools
  // The pieces that fill the pools at first: as many experts of each source.
  std::vector<int> first_pieces() const;

 private:
  struct Size {
    std::size_t bytes;
    std::size_t count;
  };
  std::vector<WeightSource> sources_;
  std::vector<FileRange> pieces_;
  std::vector<Size> sizes_;
  std::size_t least_slots_;
  std::vector<PieceCache::Pool> pools_;
};

}  // namespace specdec
