// DRY and XTC against llama.cpp's samplers, on random rows.
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "sampling/dry.h"
#include "sampling/transforms.h"

// llama.cpp's own tests have it: breakers are given as tokens.
llama_sampler* llama_sampler_init_dry_testing(float dry_multiplier, float dry_base, int32_t dry_allowed_length,
                                              int32_t dry_penalty_last_n,
                                              const std::vector<std::vector<llama_token>>& seq_breakers);

namespace {

using namespace specdec::sampling;

struct Free {
  void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
};
using Sampler = std::unique_ptr<llama_sampler, Free>;

std::vector<llama_token_data> sampled(llama_sampler& sampler, const std::vector<float>& logits) {
  std::vector<llama_token_data> row;
  for (std::size_t i = 0; i < logits.size(); ++i) row.push_back({static_cast<llama_token>(i), logits[i], 0.0f});
  llama_token_data_array array = {row.data(), row.size(), -1, false};
  llama_sampler_apply(&sampler, &array);
  return {array.data, array.data + array.size};
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  std::vector<float> logits(int count, float spread) {
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> row;
    for (int i = 0; i < count; ++i) row.push_back(normal(engine_));
    return row;
  }
  std::vector<Token> tokens(int count, int kinds) {
    std::vector<Token> list;
    for (int i = 0; i < count; ++i) list.push_back(below(kinds));
    return list;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace

TEST(dry_is_llama_cpps) {
  int num_changed = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const int kinds = 2 + random.below(6), last_n = 1 + random.below(60), allowed = 1 + random.below(3);
    const std::vector<Token> history = random.tokens(random.below(80), kinds);
    std::vector<std::vector<Token>> breakers;
    for (int i = 1 + random.below(3); i > 0; --i) breakers.push_back(random.tokens(1 + random.below(3), kinds + 3));
    const std::vector<float> logits = random.logits(kinds + 4, 2.0f);

    const Sampler theirs(llama_sampler_init_dry_testing(0.8f, 1.75f, allowed, last_n, breakers));
    for (const Token token : history) llama_sampler_accept(theirs.get(), token);
    const std::vector<llama_token_data> expected = sampled(*theirs, logits);

    std::vector<double> ours(logits.begin(), logits.end());
    Dry dry({0.8, 1.75, allowed, last_n}, breakers);
    for (int time = 0; time < 2; ++time) {  // the second time with used buffers
      ours.assign(logits.begin(), logits.end());
      dry.penalise(ours.data(), static_cast<int>(ours.size()), history.data(), static_cast<int>(history.size()));
    }
    for (std::size_t i = 0; i < ours.size(); ++i) {
      CHECK_NEAR(ours[i], expected[i].logit, 1e-4 * (1.0 + std::fabs(ours[i])));
      num_changed += ours[i] < static_cast<double>(logits[i]) ? 1 : 0;
    }
  }
  CHECK(num_changed > 1000);
}

TEST(xtc_is_llama_cpps) {
  int num_changed = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    const std::vector<float> logits = random.logits(2 + random.below(30), 1.5f);
    const float threshold = 0.02f + 0.01f * static_cast<float>(random.below(49));
    const Sampler theirs(llama_sampler_init_xtc(1.0f, threshold, 0, 1));
    std::vector<llama_token_data> expected = sampled(*theirs, logits);

    SamplingParams params;
    params.temperature = 1.0;
    params.top_k = 0;
    params.top_p = 1.0;
    params.min_p = 0.0;
    params.xtc_probability = 0.5;
    params.xtc_threshold = static_cast<double>(threshold);
    Distribution ours;
    Transforms(params).apply(logits.data(), static_cast<int>(logits.size()), nullptr, 0, ours, nullptr, 0.25);
    CHECK(ours.tokens.size() == expected.size());
    double total = 0.0;
    for (const llama_token_data& one : expected) total += std::exp(static_cast<double>(one.logit));
    for (const llama_token_data& one : expected)
      CHECK_NEAR(ours.probability(one.id), std::exp(static_cast<double>(one.logit)) / total, 1e-9);
    num_changed += expected.size() < logits.size() ? 1 : 0;

    Transforms(params).apply(logits.data(), static_cast<int>(logits.size()), nullptr, 0, ours, nullptr, 0.75);
    CHECK(ours.tokens.size() == logits.size());  // the number says no
  }
  CHECK(num_changed > 300);
}

TEST_MAIN()
