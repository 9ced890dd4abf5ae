// Philox4x32-10 against its published answers, and the uniforms and seeds that are made from it.
#include <set>

#include "check.h"
#include "sampling/derived_seed.h"
#include "sampling/philox.h"
#include "sampling/uniforms.h"

using namespace specdec::sampling;

// Random123 (Salmon et al.), tests/kat_vectors, the three lines "philox4x32 10".
TEST(known_answers) {
  const PhiloxCounter zeros = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const PhiloxCounter ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  const PhiloxCounter pi = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == zeros);
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) == ones);
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) == pi);
}

TEST(uniform53_covers_zero_and_stops_below_one) {
  CHECK(uniform53(0, 0) == 0.0);
  CHECK(uniform53(0, 0x7ff) == 0.0);  // the 11 lowest bits are dropped
  CHECK(uniform53(0, 0x800) == 0x1p-53);
  CHECK(uniform53(0x80000000, 0) == 0.5);
  CHECK(uniform53(0xffffffff, 0xffffffff) == 1.0 - 0x1p-53);
}

// The counter layout is fixed: a change would change the output of every seed.
TEST(uniforms_are_philox_at_the_documented_counter) {
  const PhiloxUniforms uniforms(0x0123456789abcdef, 7);
  const PhiloxCounter words = philox4x32({0x2a, 0x1, 5 << 2 | 2, 7}, {0x89abcdef, 0x01234567});
  CHECK(uniforms.uniform(0x10000002a, 5, Purpose::next) == uniform53(words[0], words[1]));
}

TEST(every_argument_matters) {
  std::set<double> seen;
  int drawn = 0;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32, 1ull << 63}) {
    for (const std::uint64_t request : {0ull, 1ull, 0xffffffffull, 1ull << 32}) {
      const PhiloxUniforms uniforms(seed, request);
      for (const std::int64_t position : {0ll, 1ll, 4096ll}) {
        for (int place = 0; place < 5; ++place) {
          for (const Purpose purpose : {Purpose::draft, Purpose::accept, Purpose::next}) {
            seen.insert(uniforms.uniform(position, place, purpose));
            ++drawn;
          }
        }
      }
    }
  }
  CHECK(static_cast<int>(seen.size()) == drawn);
}

TEST(derived_seeds_differ_and_the_first_is_the_seed_itself) {
  const PhiloxCounter words = philox4x32({3, 0, 0xffffffff, 0xffffffff}, {0x89abcdef, 0x01234567});
  CHECK(derived_seed(0x0123456789abcdef, 3) ==
        (std::uint64_t{words[1]} << 32 | words[0]));  // fixed: texts are repeated by it
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(derived_seed(seed, 0) == seed);
    for (std::uint64_t index = 0; index < 500; ++index) seen.insert(derived_seed(seed, index));
  }
  CHECK(seen.size() == 20 * 500);
}

TEST(uniforms_fill_the_unit_interval_evenly) {
  constexpr int bins = 16, draws = 160000;
  int counts[bins] = {};
  const PhiloxUniforms uniforms(1, 2);
  for (int i = 0; i < draws; ++i) {
    const double u = uniforms.uniform(i / 8, i % 8, Purpose::accept);
    CHECK(u >= 0.0 && u < 1.0);
    ++counts[static_cast<int>(u * bins)];
  }
  double chi_square = 0.0;
  const double expected = static_cast<double>(draws) / bins;
  for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  CHECK(chi_square < 37.697);  // 15 degrees of freedom, alpha 0.001; fixed seed
}

TEST_MAIN()
