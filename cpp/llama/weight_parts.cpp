#include "llama/weight_parts.h"

#include <algorithm>
#include <utility>

#include "streaming/direct_reads.h"

namespace specdec {
namespace {

constexpr std::size_t largest_part = std::size_t{2} << 20, smallest_part = std::size_t{16} << 10;
constexpr std::uint64_t parts_of_a_model = 256;  // at least, of a small one
constexpr std::size_t alignment = 64;            // of a part in memory

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

WeightParts::WeightParts(std::vector<WeightSource> sources, bool with_head)
    : sources_(std::move(sources)), part_bytes_(part_bytes()), with_head_(with_head) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const WeightSource& source = sources_[i];
    const std::int64_t rows = rows_of_part(source);
    for (std::int64_t begin = 0; begin < source.rows(); begin += rows) {
      const std::int64_t end = std::min(source.rows(), begin + rows);
      const std::uint64_t first = source.bytes_before(begin), last = source.bytes_before(end);
      parts_.push_back({i, begin, end, source.file, source.offset + first, static_cast<std::size_t>(last - first)});
      largest_ = std::max(largest_, parts_.back().bytes);
    }
  }
}

std::size_t WeightParts::part_bytes() const {
  return std::clamp(static_cast<std::size_t>(bytes_of(sources_) / parts_of_a_model), smallest_part, largest_part);
}

std::int64_t WeightParts::rows_of_part(const WeightSource& source) const {
  const std::uint64_t count = std::max<std::uint64_t>(1, rounded_up(source.bytes(), part_bytes_) / part_bytes_);
  const std::uint64_t rows = rounded_up(static_cast<std::uint64_t>(source.rows()), count) / count;
  return static_cast<std::int64_t>(rounded_up(rows, unit_rows));
}

// A small matrix is not worth a read of its own.
bool WeightParts::may_go(const WeightPart& part) const {
  const WeightSource& source = sources_[part.source];
  const bool is_read_by_head = with_head_ && (source.is_output || source.is_of_head);
  return part.bytes >= part_bytes_ / 4 && !is_read_by_head;
}

std::uint64_t WeightParts::slots_bytes() const { return num_slots * direct_bytes_for(largest_); }

// Of each source that goes: what it takes more than its copy.
std::vector<ResidencyPart> WeightParts::gains(const Copies& copies) const {
  std::vector<ResidencyPart> gains;
  for (const std::uint64_t copy : copies) gains.push_back({static_cast<std::size_t>(copy), true});
  std::vector<std::uint64_t> bytes(sources_.size());
  for (const WeightPart& part : parts_) {
    bytes[part.source] += part.bytes;
    if (!gains.empty() && !may_go(part)) gains[part.source].may_go = false;
  }
  for (std::size_t i = 0; i < gains.size(); ++i) {
    gains[i].may_go = gains[i].may_go && !sources_[i].is_output && copies[i] > 0 && bytes[i] > copies[i];
    gains[i].bytes = gains[i].may_go ? static_cast<std::size_t>(bytes[i] - copies[i]) : 0;
  }
  return gains;
}

std::uint64_t WeightParts::all_memory() const {
  std::uint64_t bytes = alignment * sources_.size();
  for (const WeightPart& part : parts_) bytes += part.bytes;
  return bytes;
}

std::uint64_t WeightParts::least_memory(const Copies& copies) const {
  const std::vector<ResidencyPart> gains = this->gains(copies);
  std::uint64_t bytes = alignment * sources_.size(), goes = 0;
  for (const WeightPart& part : parts_)
    (may_go(part) && (gains.empty() || gains[part.source].may_go) ? goes : bytes) += part.bytes;
  for (std::size_t i = 0; i < gains.size(); ++i) bytes += gains[i].may_go ? copies[i] : 0;
  return bytes + std::min(goes, slots_bytes());
}

void WeightParts::choose(std::uint64_t memory, const Copies& copies) {
  const std::uint64_t all = all_memory(), needed = all + slots_bytes();
  std::uint64_t must_go = all > memory ? needed - memory : 0;
  const std::vector<bool> whole = parts_that_stay(gains(copies), must_go);
  copies_bytes_ = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) copies_bytes_ += whole[i] ? 0 : copies[i];
  must_go += copies_bytes_;
  std::vector<ResidencyPart> candidates;
  for (const WeightPart& part : parts_)
    candidates.push_back({part.bytes, may_go(part) && (whole.empty() || !whole[part.source])});
  const std::vector<bool> stays = parts_that_stay(candidates, must_go);
  resident_bytes_ = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    WeightPart& part = parts_[i];
    // What stays of a matrix is in one piece.
    if (i > 0 && parts_[i - 1].source != part.source)
      resident_bytes_ = static_cast<std::size_t>(rounded_up(resident_bytes_, alignment));
    part.stays = stays[i];
    part.at = resident_bytes_;
    resident_bytes_ += part.stays ? part.bytes : 0;
  }
}

}  // namespace specdec
