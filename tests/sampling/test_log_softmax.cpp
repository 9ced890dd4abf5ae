// log_softmax against its definition, and extreme rows; the most likely tokens against sorting.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "sampling/log_softmax.h"
#include "sampling/uniforms.h"

using namespace specdec::sampling;

namespace {

double by_definition(const std::vector<float>& logits, Token token) {
  double total = 0.0;
  const double chosen = static_cast<double>(logits[static_cast<std::size_t>(token)]);
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - chosen);
  return -std::log(total);
}

double fast(const std::vector<float>& logits, Token token) {
  return log_softmax(logits.data(), static_cast<int>(logits.size()), token);
}

}  // namespace

TEST(against_the_definition) {
  for (const int size : {1, 2, 15, 16, 17, 1023, 1024, 1025, 152000}) {
    for (const double spread : {0.0, 1.0, 20.0, 80.0}) {
      std::vector<float> logits;
      for (int i = 0; i < size; ++i)
        logits.push_back(static_cast<float>(spread * PhiloxUniforms(1, 0).uniform(i, 0, Purpose::draft)));
      for (const Token token : {0, size / 2, size - 1})
        CHECK_NEAR(fast(logits, token), by_definition(logits, token), 1e-6);
    }
  }
}

TEST(extremes) {
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  CHECK_NEAR(fast({1000.0f, 1000.0f}, 0), -std::log(2.0), 1e-6);
  CHECK_NEAR(fast({3.0f, minus_infinity}, 0), 0.0, 1e-6);
  CHECK(fast({3.0f, minus_infinity}, 1) == -std::numeric_limits<double>::infinity());
  CHECK_NEAR(fast({0.0f, -500.0f}, 1), -500.0, 1e-6);
}

TEST(the_most_likely_tokens_are_those_of_a_stable_sort) {
  for (const int size : {1, 2, 7, 40, 1000}) {
    for (const int values : {1, 3, 1 << 20}) {  // few values: many ties
      std::vector<float> logits;
      for (int i = 0; i < size; ++i) {
        logits.push_back(
            static_cast<float>(std::floor(values * PhiloxUniforms(2, 0).uniform(i, values, Purpose::draft))) / 8.0f);
      }
      const LogSoftmax row = log_softmax(logits.data(), size);
      std::vector<Token> sorted;
      for (Token token = 0; token < size; ++token) sorted.push_back(token);
      std::stable_sort(sorted.begin(), sorted.end(), [&](Token a, Token b) { return row.logits[a] > row.logits[b]; });
      for (const int count : {0, 1, 2, 20, size, size + 1}) {
        std::vector<TokenLogprob> tokens = {{-1, 5.0}};  // what is there stays
        append_most_likely(row, count, tokens);
        CHECK(static_cast<int>(tokens.size()) == 1 + std::min(count, size));
        CHECK(tokens[0].token == -1 && tokens[0].logprob == 5.0);
        for (std::size_t i = 1; i < tokens.size(); ++i) {
          CHECK(tokens[i].token == sorted[i - 1] &&
                tokens[i].logprob == log_softmax(logits.data(), size, tokens[i].token));
        }
      }
    }
  }
}

TEST(a_token_without_probability_is_the_least_likely) {
  const std::vector<float> logits = {-std::numeric_limits<float>::infinity(), 1.0f, 2.0f};
  std::vector<TokenLogprob> tokens;
  append_most_likely(log_softmax(logits.data(), 3), 3, tokens);
  CHECK(tokens[0].token == 2 && tokens[1].token == 1 && tokens[2].token == 0);
  CHECK(tokens[2].logprob == -std::numeric_limits<double>::infinity());
}

TEST_MAIN()
