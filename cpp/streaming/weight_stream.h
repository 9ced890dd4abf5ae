// Weights that stay on the disk: parts of matrices, read into a few slots of memory in the order in which passes use
// them. Threads read ahead of the computation, also between passes. The order is learnt: the first pass shows it.
//
// A pass visits one matrix after another. Kernels take the parts of the matrix that was begun, and give them back; a
// part whose units were all given back makes room for another. Parts that a pass leaves out (the output matrix while a
// prompt is read, or all that is left of a cancelled pass) are dropped when a later matrix begins.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "streaming/direct_reads.h"
#include "streaming/readers.h"
#include "streaming/slot_memory.h"

namespace specdec {

struct StreamedPart : FileRange {
  int matrix;     // parts of a matrix are neighbours, matrices count up from 0
  int num_units;  // of work: once they are all given back, the part may go
};

class WeightStream {
 public:
  struct Options {
    int num_slots = 12;  // each holds one part; at least 1
    int num_readers = 4;
  };
  struct Counts {
    std::uint64_t bytes_read = 0;
  };

  // parts: not empty; in the order in which the first pass probably uses them. Throws Error, std::bad_alloc.
  WeightStream(const std::vector<std::string>& files, std::vector<StreamedPart> parts, const Options& options);
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  // From now on the pass takes parts of this matrix. No part may be held.
  void begin(int matrix) noexcept;
  // For any thread. Waits until the part is in memory. Null: it cannot be read (take_problem), and nothing is held.
  const std::uint8_t* take(int part) noexcept;
  void give_back(int part, int units) noexcept;  // a part that was taken, after these units of it were used

  bool has_failed() const noexcept;
  // Why parts could not be read since the last call; empty: all could. They are read again when they are wanted again.
  std::string take_problem();
  Counts counts() const;

 private:
  enum class State { absent, reading, ready, failed };
  struct Part {
    State state = State::absent;
    bool is_dropped = false;  // while it is read
    int num_holders = 0, units_left = 0;
    std::uint64_t place = 0;  // for which it was read
    std::size_t slot = 0;
    const std::uint8_t* data = nullptr;
  };

  void read_ahead();
  bool takes_next() const;
  void release(Part& part);
  void drop_before(std::uint64_t place);
  void arrange(std::vector<int> matrices);
  std::vector<int> order_as_seen() const;
  int num_parts() const { return static_cast<int>(parts_.size()); }
  int part_at(std::uint64_t place) const { return order_[place % order_.size()]; }

  const std::vector<StreamedPart> parts_;
  const DirectFiles files_;
  SlotMemory memory_;

  mutable std::mutex mutex_;
  std::condition_variable room_, arrival_;
  std::vector<Part> states_;           // by part
  std::vector<std::size_t> free_;      // slots
  std::vector<int> first_, count_;     // by matrix: its parts
  std::vector<int> matrices_, order_;  // matrices and parts in the order of passes
  std::vector<std::uint64_t> index_;   // by matrix: where its parts begin in order_
  std::vector<int> seen_;              // matrices of this pass so far
  // Places count the parts of all passes, one after another: place % parts is an index of order_.
  std::uint64_t at_ = 0;    // of the first part that the matrix that was begun may still take
  std::uint64_t next_ = 0;  // of the part that is read next
  int current_ = -1;        // the matrix that was begun
  int num_reading_ = 0;     // readers that read now
  bool has_failed_ = false, is_ending_ = false;
  std::string problem_;
  Counts counts_;
  Readers readers_;
};

}  // namespace specdec
