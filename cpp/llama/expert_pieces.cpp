#include "llama/expert_pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/index.h"
#include "streaming/direct_reads.h"

namespace specdec {

ExpertPieces::ExpertPieces(std::vector<WeightSource> sources, int num_threads)
    : sources_(std::move(sources)), least_slots_(PieceCache::least_slots(num_threads)) {
  std::map<std::size_t, std::size_t> sizes;
  for (const WeightSource& source : sources_) {
    const auto bytes = static_cast<std::size_t>(source.bytes_of_matrix());
    for (std::int64_t expert = 0; expert < source.num_matrices(); ++expert)
      pieces_.push_back({source.file, source.offset + idx(expert) * bytes, bytes});
    sizes[bytes] += idx(source.num_matrices());
  }
  for (const auto& [bytes, count] : sizes) sizes_.push_back({bytes, count});
}

std::uint64_t ExpertPieces::least_memory() const {
  std::uint64_t bytes = 0;
  for (const Size& size : sizes_) bytes += std::min(size.count, least_slots_) * direct_bytes_for(size.bytes);
  return bytes;
}

// Each size gets the same share of its pieces.
const std::vector<PieceCache::Pool>& ExpertPieces::choose(std::uint64_t memory) {
  std::uint64_t all = 0;
  for (const Size& size : sizes_) all += size.count * direct_bytes_for(size.bytes);
  const std::uint64_t least = least_memory(), free = memory > least ? memory - least : 0;
  const double share = all > least ? std::min(1.0, static_cast<double>(free) / static_cast<double>(all - least)) : 0;
  pools_.clear();
  for (const Size& size : sizes_) {
    const std::size_t slots = std::min(size.count, least_slots_);
    const auto more = static_cast<std::size_t>(share * static_cast<double>(size.count - slots));
    pools_.push_back({size.bytes, slots + more});
  }
  return pools_;
}

std::uint64_t ExpertPieces::slots_bytes() const {
  std::uint64_t bytes = 0;
  for (const PieceCache::Pool& pool : pools_) bytes += pool.num_slots * pool.bytes;
  return bytes;
}

std::vector<int> ExpertPieces::first_pieces() const {
  std::map<std::size_t, std::size_t> left;
  for (const PieceCache::Pool& pool : pools_) left[pool.bytes] = pool.num_slots;
  std::vector<int> chosen;
  std::int64_t most = 0;
  for (const WeightSource& source : sources_) most = std::max(most, source.num_matrices());
  for (std::int64_t expert = 0; expert < most; ++expert) {
    int first = 0;
    for (const WeightSource& source : sources_) {
      std::size_t& room = left[static_cast<std::size_t>(source.bytes_of_matrix())];
      if (expert < source.num_matrices() && room > 0) {
        chosen.push_back(first + static_cast<int>(expert));
        --room;
      }
      first += static_cast<int>(source.num_matrices());
    }
  }
  return chosen;
}

}  // namespace specdec
