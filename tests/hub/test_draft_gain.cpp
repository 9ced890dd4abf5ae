// What a draft model would gain, from the bytes of passes.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "check.h"
#include "hub/draft_gain.h"

using namespace specdec;

namespace {

constexpr int f16 = 1;

GgufTensor matrix(const char* name, std::uint64_t columns, std::uint64_t rows) {
  return {name, f16, {columns, rows}, 0, 2 * columns * rows};
}

GgufFile model(std::vector<GgufTensor> tensors) {
  GgufFile file;
  file.tensors = std::move(tensors);
  return file;
}

bool is_near(double a, double b) { return std::abs(a - b) < 1e-9 * b; }

}  // namespace

TEST(the_embedding_is_read_only_where_it_is_the_output_too) {
  const std::vector<GgufFile> tied = {model({matrix("token_embd.weight", 64, 100), matrix("blk.0.w", 64, 64)})};
  const std::vector<GgufFile> parted = {
      model({matrix("token_embd.weight", 64, 100), matrix("output.weight", 64, 100), matrix("blk.0.w", 64, 64)})};
  CHECK(is_near(pass_bytes(tied, false), 2.0 * (6400 + 4096)));
  CHECK(is_near(pass_bytes(parted, false), 2.0 * (6400 + 4096)));
  CHECK(is_near(pass_bytes(tied, true), 6400 / 8.0 + 4096 * 8.5 / 8));  // a small model
}

TEST(a_large_draft_is_rounded) {
  const std::vector<GgufFile> large = {model({matrix("blk.0.w", 32768, 8192)})};
  CHECK(is_near(pass_bytes(large, true) / pass_bytes(large, false), 4.5 / 16));
}

// tokens / time with K drafts: K = 1 at a cost of 0.5, (1 + 0.7) / (1 + 0.53)
TEST(the_gain_of_the_best_number_of_drafts) {
  CHECK(is_near(predicted_gain(0.5, 0.7), 1.7 / 1.53));
  CHECK(is_near(predicted_gain(0.2, 0.7), (1 + 0.7 + 0.49) / (1 + 2 * 0.23)));
  CHECK(predicted_gain(0.5, usual_acceptance) >= least_gain);  // "at most half of the target's pass" in README and docs
  CHECK(predicted_gain(0.55, usual_acceptance) < least_gain);
  CHECK(predicted_gain(1.0, usual_acceptance) < 1.0);
}

TEST_MAIN()
