#include "llama/tile_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "base/index.h"
#include "base/parallel.h"
#include "graph/blocks.h"
#include "platform/huge_pages.h"

namespace specdec {

namespace {

std::shared_ptr<std::uint8_t> huge_pages_of(std::uint64_t size) {
  const auto bytes = static_cast<std::size_t>(size);
  const auto unmap = [bytes](std::uint8_t* memory) {
    if (memory != nullptr) unmap_huge_pages(memory, bytes);
  };
  std::shared_ptr<std::uint8_t> memory(static_cast<std::uint8_t*>(map_huge_pages(bytes)), unmap);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void write_tile_bytes(const std::vector<TileCopy>& copies, std::size_t at, std::size_t count, std::uint8_t* to) {
  const std::size_t end = at + count;
  std::size_t start = 0;  // of a copy
  std::vector<std::uint8_t> whole;
  for (const auto& [weights, type] : copies) {
    const auto bytes = static_cast<std::size_t>(bytes_of_tile(weights, type));
    const std::size_t next = start + idx(num_tiles(weights)) * bytes;
    while (at < std::min(end, next)) {
      const std::size_t tile = (at - start) / bytes, skip = (at - start) % bytes,
                        part = std::min(bytes - skip, end - at);
      const auto number = static_cast<std::int64_t>(tile);
      if (part == bytes) {
        write_tiles(weights, type, number, number + 1, to);
      } else {
        whole.resize(bytes);
        write_tiles(weights, type, number, number + 1, whole.data());
        std::memcpy(to, whole.data() + skip, part);
      }
      at += part;
      to += part;
    }
    start = next;
  }
}

std::uint64_t TileMemory::bytes_of(const std::vector<TileCopy>& copies) {
  std::uint64_t bytes = 0;
  for (const TileCopy& copy : copies) bytes += tiles_bytes(copy.weights, copy.type);
  return bytes;
}

TileMemory::TileMemory(const std::vector<TileCopy>& copies, std::shared_ptr<const std::uint8_t> memory)
    : memory_(std::move(memory)) {
  const std::uint8_t* at = memory_.get();
  for (const TileCopy& copy : copies) {
    tiles_.push_back(at);
    at += tiles_bytes(copy.weights, copy.type);
  }
}

TileMemory::TileMemory(const std::vector<TileCopy>& copies, int num_threads,
                       const std::function<void(double)>& progress)
    : TileMemory(copies, huge_pages_of(bytes_of(copies))) {
  struct Piece {
    std::size_t copy;
    std::int64_t first, last;  // tiles
  };
  constexpr std::int64_t tiles_at_once = 64;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const std::int64_t count = num_tiles(copies[i].weights);
    for (std::int64_t first = 0; first < count; first += tiles_at_once) {
      pieces.push_back({i, first, std::min(count, first + tiles_at_once)});
    }
  }
  std::atomic<std::int64_t> num_done{0};
  const auto write = [&](std::int64_t i, int) {
    const Piece& piece = pieces[idx(i)];
    const auto [weights, type] = copies[piece.copy];
    auto* const tiles = const_cast<std::uint8_t*>(tiles_[piece.copy]);  // no one reads them yet
    write_tiles(weights, type, piece.first, piece.last, tiles + idx(piece.first) * bytes_of_tile(weights, type));
    ++num_done;
  };
  const auto tick = [&] {
    progress(std::min(0.999, static_cast<double>(num_done) / static_cast<double>(pieces.size())));
  };
  for_each_piece(num_threads, static_cast<std::int64_t>(pieces.size()), write, tick);
  progress(1.0);
}

// Compares one tile of each of a few matrices, but not the first tile, which would be right even in a partly written
// file.
bool TileMemory::is_of(const std::vector<TileCopy>& copies) const {
  constexpr std::size_t most_compared = 16;
  const std::size_t step = (copies.size() + most_compared - 1) / most_compared;
  std::vector<std::uint8_t> made;
  for (std::size_t i = copies.size(); i-- > 0; i -= std::min(i, step - 1)) {
    const auto [weights, type] = copies[i];
    const std::int64_t count = num_tiles(weights), tile = count / 3 * 2;
    const auto bytes = static_cast<std::size_t>(bytes_of_tile(weights, type));
    made.resize(bytes);
    write_tiles(weights, type, tile, tile + 1, made.data());
    if (std::memcmp(made.data(), tiles_[i] + idx(tile) * bytes, bytes) != 0) return false;
  }
  return true;
}

}  // namespace specdec
