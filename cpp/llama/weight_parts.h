// Single matrices in parts, of which some stay in memory and the others are streamed.
//
// If the model also drafts with rounded copies (llama/rounded_weights.h), a matrix that stays as a whole needs none. So
// whole matrices are chosen first, by what each takes more than its copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "llama/weight_sources.h"
#include "streaming/residency.h"

namespace specdec {

struct WeightPart {
  std::size_t source;
  std::int64_t begin, end;  // rows
  std::size_t file;
  std::uint64_t offset;
  std::size_t bytes;
  bool stays = true;
  std::size_t at = 0;  // in the memory of what stays
};

class WeightParts {
 public:
  static constexpr int num_slots = 12;  // of the stream

  // with_head: what the target's own head reads between passes stays, which is its layers and the output matrix.
  WeightParts(std::vector<WeightSource> sources, bool with_head);

  const std::vector<WeightSource>& sources() const { return sources_; }
  const std::vector<WeightPart>& all() const { return parts_; }  // in the order of sources
  std::int64_t rows_of_part(const WeightSource& source) const;

  // copies: of each source, the bytes of its rounded copy, which it takes unless it stays as a whole; empty: there are
  // none.
  using Copies = std::vector<std::uint64_t>;
  std::uint64_t all_memory() const;                               // bytes, if all stay
  std::uint64_t least_memory(const Copies& copies = {}) const;    // bytes, if as few as possible stay
  void choose(std::uint64_t memory, const Copies& copies = {});   // decides what stays
  std::size_t resident_bytes() const { return resident_bytes_; }  // of what stays
  std::uint64_t slots_bytes() const;                              // of the stream
  std::uint64_t copies_bytes() const { return copies_bytes_; }    // of the matrices that do not stay as a whole

 private:
  std::size_t part_bytes() const;
  bool may_go(const WeightPart& part) const;
  std::vector<ResidencyPart> gains(const Copies& copies) const;

  std::vector<WeightSource> sources_;
  std::size_t part_bytes_, largest_ = 0, resident_bytes_ = 0;
  bool with_head_;
  std::uint64_t copies_bytes_ = 0;
  std::vector<WeightPart> parts_;
};

}  // namespace specdec
