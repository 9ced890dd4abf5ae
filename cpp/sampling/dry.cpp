#include "sampling/dry.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"

namespace specdec::sampling {

void DryParams::validate() const {
  check_range("dry_multiplier", multiplier, ranges::dry_multiplier);
  check_range("dry_base", base, ranges::dry_base);
  check_range("dry_allowed_length", allowed_length, ranges::dry_allowed_length);
  check_range("dry_penalty_last_n", penalty_last_n, ranges::dry_penalty_last_n);
}

Dry::Dry(const DryParams& params, const std::vector<std::vector<Token>>& breakers) : params_(params) {
  for (const std::vector<Token>& breaker : breakers) {
    if (!breaker.empty()) breakers_[breaker[0]].emplace_back(breaker.begin() + 1, breaker.end());
  }
}

bool Dry::is_breaker(Token token) const {
  const auto found = breakers_.find(token);
  return found != breakers_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [](const auto& rest) { return rest.empty(); });
}

// The number of tokens after the last breaker; if several begin with the same token, the longest counts.
int Dry::tokens_since_breaker(const Token* tokens, int count) const {
  for (int after = 0; after < count; ++after) {
    const Token* const next = tokens + count - after;
    const auto found = breakers_.find(next[-1]);
    if (found == breakers_.end()) continue;
    int longest = -1;
    for (const std::vector<Token>& rest : found->second) {
      const auto length = static_cast<int>(rest.size());
      if (length > longest && length <= after && std::equal(rest.begin(), rest.end(), next)) longest = length;
    }
    if (longest >= 0) return after - longest;
  }
  return count;
}

// The Z-algorithm on the tokens read backwards: in [left, right) the text k tokens back is known to equal its end.
void Dry::find_repetitions(const Token* tokens, int count) {
  const auto back = [&](int i) { return tokens[count - 1 - i]; };
  repeated_.assign(idx(count), 0);
  int left = 0, right = 0;
  for (int k = 1; k < count; ++k) {
    int& length = repeated_[idx(k)];
    if (k < right) length = std::min(right - k, repeated_[idx(k - left)]);
    while (k + length < count && back(length) == back(k + length)) ++length;
    if (k + length > right) {
      left = k;
      right = k + length;
    }
  }
}

double Dry::penalty(int length) const {
  constexpr double largest_log = 88.7228391;  // of a float: as in llama.cpp, the penalty remains a finite float
  double exponent = length - params_.allowed_length;
  if (params_.base > 1.000001) exponent = std::min(exponent, std::floor(largest_log / std::log(params_.base)));
  return params_.multiplier * std::pow(params_.base, exponent);
}

void Dry::penalise(double* logits, int size, const Token* history, int history_size) {
  const int count = params_.penalty_last_n < 0 ? history_size : std::min(params_.penalty_last_n, history_size);
  if (!params_.is_on() || count <= params_.allowed_length) return;
  const Token* const tokens = history + history_size - count;
  const int limit = tokens_since_breaker(tokens, count);
  if (limit < params_.allowed_length) return;
  find_repetitions(tokens, count);
  longest_.resize(idx(std::max(size, 0)), 0);
  const auto visit = [&](auto&& each) {
    for (int k = 1; k < count; ++k) {
      const int length = std::min(repeated_[idx(k)], limit);
      const Token next = tokens[count - k];
      if (length >= params_.allowed_length && next >= 0 && next < size) each(next, length);
    }
  };
  visit([&](Token next, int length) { longest_[idx(next)] = std::max(longest_[idx(next)], length + 1); });
  visit([&](Token next, int) {
    int& longest = longest_[idx(next)];
    if (longest > 0 && !is_breaker(next)) logits[next] -= penalty(longest - 1);
    longest = 0;
  });
}

}  // namespace specdec::sampling
