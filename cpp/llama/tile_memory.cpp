#include "llama/tile_memory.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "base/index.h"
#include "base/parallel.h"
#include "graph/blocks.h"
#include "platform/huge_pages.h"

namespace specdec {

std::uint64_t TileMemory::bytes_of(const std::vector<TileCopy>& copies) {
  std::uint64_t bytes = 0;
  for (const TileCopy& copy : copies) bytes += tiles_bytes(copy.weights, copy.type);
  return bytes;
}

TileMemory::TileMemory(const std::vector<TileCopy>& copies, int num_threads,
                       const std::function<void(double)>& progress)
    : memory_(nullptr, Unmap{bytes_of(copies)}) {
  memory_.reset(static_cast<std::uint8_t*>(map_huge_pages(memory_.get_deleter().bytes)));
  if (memory_ == nullptr) throw std::bad_alloc();
  struct Piece {
    std::size_t copy;
    std::int64_t first, last;  // tiles
  };
  constexpr std::int64_t tiles_at_once = 64;
  std::vector<Piece> pieces;
  std::uint8_t* at = memory_.get();
  for (const TileCopy& copy : copies) {
    const std::int64_t count = num_tiles(copy.weights);
    for (std::int64_t first = 0; first < count; first += tiles_at_once) {
      pieces.push_back({tiles_.size(), first, std::min(count, first + tiles_at_once)});
    }
    tiles_.push_back(at);
    at += tiles_bytes(copy.weights, copy.type);
  }
  std::atomic<std::int64_t> num_done{0};
  const auto write = [&](std::int64_t i, int) {
    const Piece& piece = pieces[idx(i)];
    write_tiles(copies[piece.copy].weights, copies[piece.copy].type, piece.first, piece.last, tiles_[piece.copy]);
    ++num_done;
  };
  const auto tick = [&] {
    progress(std::min(0.999, static_cast<double>(num_done) / static_cast<double>(pieces.size())));
  };
  for_each_piece(num_threads, static_cast<std::int64_t>(pieces.size()), write, tick);
  progress(1.0);
}

void TileMemory::Unmap::operator()(std::uint8_t* memory) const { unmap_huge_pages(memory, bytes); }

}  // namespace specdec
