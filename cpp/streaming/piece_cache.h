// Weights of experts: a pass needs few of them, so slots of memory keep those that are used most, and the others are
// read when a router has chosen them, all of an operation at once.
//
// What stays is chosen by counts of use that decay, never by recency alone: a pass over many tokens uses nearly all
// experts once, and would evict everything.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "streaming/direct_reads.h"
#include "streaming/readers.h"
#include "streaming/slot_memory.h"

namespace specdec {

class PieceCache {
 public:
  // A pool has the pieces of one size.
  struct Pool {
    std::size_t bytes;  // of each piece
    std::size_t num_slots;
  };
  struct Counts {
    std::uint64_t bytes_read = 0, used = 0, missed = 0;  // pieces that operations used, and that had to be read for one
  };
  // Slots that a pool needs: one for each thread of a pass, and one to read into.
  static std::size_t least_slots(int num_threads);

  // Each piece has the size of one of the pools. Throws std::bad_alloc.
  PieceCache(std::vector<FileRange> pieces, const std::vector<Pool>& pools);
  ~PieceCache();
  PieceCache(const PieceCache&) = delete;
  PieceCache& operator=(const PieceCache&) = delete;

  // Before start(): a slot for the piece, which then counts as read; null if its pool is full.
  std::uint8_t* fill(int piece);
  // Other pieces are read from these files from now on. Throws Error.
  void start(const std::vector<std::string>& files, int num_readers);

  // An operation takes these pieces, each on num_takers threads, in this order. Those that are missing are read at
  // once. No piece may be held.
  void begin(const std::vector<int>& pieces, int num_takers) noexcept;
  // Probably the next operations take these: they are read if nothing that is used more has to go.
  void expect(const std::vector<int>& pieces) noexcept;
  // For any thread, of pieces of begin(). Waits until the piece is in memory. Null: it cannot be read (take_problem),
  // and nothing is held.
  const std::uint8_t* take(int piece) noexcept;
  void give_back(int piece) noexcept;

  bool has_failed() const noexcept;
  // Why pieces could not be read since the last call; empty: all could.
  std::string take_problem();
  Counts counts() const;

 private:
  enum class State { absent, waiting, reading, ready };  // waiting: in a queue
  struct Piece {
    State state = State::absent;
    bool is_expected = false;              // waiting in the queue of what is expected
    int takers_left = 0, num_holders = 0;  // of the present operation
    std::uint64_t turn = 0;                // when the present operation takes it
    double score = 0;                      // uses, decayed to the pass `scored`
    std::uint64_t scored = 0;
    std::size_t pool = 0, slot = 0;
    const std::uint8_t* data = nullptr;
  };
  struct PoolState {
    SlotMemory memory;
    std::vector<std::size_t> free;
    std::vector<int> ready;  // pieces
  };

  void read_queues();
  bool start_reading(std::deque<int>& queue, int& piece);
  bool find_slot(int piece);
  void forget(std::deque<int>& queue);
  double score_of(const Piece& piece) const;
  void drop(PoolState& pool, std::size_t index);

  const std::vector<FileRange> ranges_;  // of the pieces
  std::optional<DirectFiles> files_;
  mutable std::mutex mutex_;
  std::condition_variable work_, arrival_;
  std::vector<Piece> pieces_;
  std::vector<PoolState> pools_;
  std::deque<int> wanted_;  // by turn
  std::deque<int> expected_;
  std::vector<int> present_;  // pieces of the present operation
  std::uint64_t turn_ = 0, num_operations_ = 0;
  int num_reading_ = 0;  // readers that read now
  bool has_failed_ = false, is_ending_ = false;
  std::string problem_;
  Counts counts_;
  Readers readers_;
};

}  // namespace specdec
