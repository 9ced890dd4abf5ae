// What stays is as much as may, and spread evenly.
#include <algorithm>
#include <random>
#include <vector>

#include "check.h"
#include "streaming/residency.h"

using specdec::parts_that_stay;
using specdec::ResidencyPart;

namespace {

std::uint64_t bytes_that_go(const std::vector<ResidencyPart>& parts, const std::vector<bool>& stays) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) bytes += stays[i] ? 0 : parts[i].bytes;
  return bytes;
}

}  // namespace

TEST(what_goes_suffices_and_is_at_most_a_part_too_much) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ResidencyPart> parts(1 + random() % 40);
    std::uint64_t may_go = 0, largest = 0;
    for (ResidencyPart& part : parts) {
      part = {1 + random() % 1000, random() % 4 != 0};
      may_go += part.may_go ? part.bytes : 0;
      largest = std::max<std::uint64_t>(largest, part.bytes);
    }
    const std::uint64_t must_go = random() % (may_go + 2);
    const std::vector<bool> stays = parts_that_stay(parts, must_go);
    const std::uint64_t gone = bytes_that_go(parts, stays);
    CHECK(gone >= std::min(must_go, may_go));
    CHECK(gone < must_go + largest);
    for (std::size_t i = 0; i < parts.size(); ++i) CHECK(stays[i] || parts[i].may_go);
  }
}

TEST(it_is_spread) {
  const std::vector<ResidencyPart> parts(1000, {4096, true});
  for (const int percent : {1, 10, 33, 50, 90}) {
    const std::vector<bool> stays = parts_that_stay(parts, 4096u * 10u * static_cast<unsigned>(percent));
    for (std::size_t begin = 0; begin < parts.size(); begin += 100) {
      const auto first = stays.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto gone = std::count(first, first + 100, false);
      CHECK(gone >= percent - 1 && gone <= percent + 1);
    }
  }
}

TEST(nothing_goes_that_need_not) {
  const std::vector<ResidencyPart> parts(10, {100, true});
  CHECK(bytes_that_go(parts, parts_that_stay(parts, 0)) == 0);
  CHECK(parts_that_stay({}, 5).empty());
}

TEST_MAIN()
