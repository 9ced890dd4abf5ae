// What stays of a model's matrices, with and without rounded copies of those that do not stay as a whole.
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "base/index.h"
#include "check.h"
#include "ggml.h"
#include "llama/weight_parts.h"

using namespace specdec;

namespace {

struct Sources {
  Sources(int count, std::mt19937& random) : ggml(ggml_init({1 << 20, nullptr, true}), ggml_free) {
    for (int i = 0; i < count; ++i) {
      ggml_tensor* const weights =
          ggml_new_tensor_2d(ggml.get(), GGML_TYPE_Q8_0, 512, 64 * (1 + static_cast<int>(random() % 32)));
      all.push_back({weights, true, i + 1 == count, i + 1 == count ? -1 : i, false, file_of_tiles, offset});
      offset += all.back().bytes();
    }
  }
  std::unique_ptr<ggml_context, void (*)(ggml_context*)> ggml;
  std::vector<WeightSource> all;
  std::uint64_t offset = 0;
};

// Of each source, whether all of its parts stay.
std::vector<bool> whole_ones(const WeightParts& parts) {
  std::vector<bool> whole(parts.sources().size(), true);
  for (const WeightPart& part : parts.all()) {
    if (!part.stays) whole[part.source] = false;
  }
  return whole;
}

bool reads(const WeightParts& parts) {
  for (const bool is_whole : whole_ones(parts)) {
    if (!is_whole) return true;
  }
  return false;
}

}  // namespace

TEST(the_memory_suffices_and_is_used) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Sources sources(2 + static_cast<int>(random() % 40), random);
    WeightParts::Copies copies;  // in the end, none
    if (round % 3 != 0) {
      for (const WeightSource& source : sources.all) copies.push_back(source.bytes() * (20 + random() % 60) / 100);
      copies.back() = 1000;
    }
    WeightParts parts(sources.all, false);
    const std::uint64_t all = parts.all_memory(), least = parts.least_memory(copies);
    std::uint64_t largest = 0, output_copy = copies.empty() ? 0 : copies.back();
    for (const WeightSource& source : sources.all) largest = std::max(largest, source.bytes());
    for (std::uint64_t memory = least; memory < all + all / 8; memory += all / 40) {
      parts.choose(memory, copies);
      const std::vector<bool> whole = whole_ones(parts);
      std::uint64_t needed_copies = 0;
      for (std::size_t i = 0; i < copies.size(); ++i) needed_copies += whole[i] ? 0 : copies[i];
      CHECK(copies.empty() || whole.back());  // the output
      CHECK(needed_copies <= parts.copies_bytes());
      const std::uint64_t used =
          parts.resident_bytes() + parts.copies_bytes() + (reads(parts) ? parts.slots_bytes() : 0);
      CHECK(used <= memory);
      CHECK(!reads(parts) || used + largest + output_copy >= memory - parts.slots_bytes());
      std::size_t at = 0;  // what stays of a matrix is in one piece, and matrices do not overlap
      for (const WeightPart& part : parts.all()) {
        if (!part.stays) continue;
        CHECK(part.at >= at);
        CHECK(part.begin == 0 || !whole[part.source] || part.at == at);
        at = part.at + part.bytes;
      }
      CHECK(at <= parts.resident_bytes());
    }
    parts.choose(all, copies);
    CHECK(!reads(parts) && parts.copies_bytes() == 0);
  }
}

TEST(a_matrix_that_would_gain_nothing_stays) {
  std::mt19937 random(4);
  const Sources sources(12, random);
  WeightParts::Copies copies;
  for (std::size_t i = 0; i < 12; ++i) copies.push_back(i % 3 == 0 ? sources.all[i].bytes() : i % 3 == 1 ? 0 : 1);
  WeightParts parts(sources.all, false);
  parts.choose(parts.least_memory(copies), copies);
  const std::vector<bool> whole = whole_ones(parts);
  for (std::size_t i = 0; i < 11; ++i) CHECK(whole[i] == (i % 3 != 2));
}

TEST_MAIN()
