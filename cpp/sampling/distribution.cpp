#include "sampling/distribution.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/index.h"

namespace specdec::sampling {

double Distribution::probability(Token token) const noexcept {
  if (tokens.empty() || token < tokens.front() || token > tokens.back()) return 0.0;
  const auto index = idx(token - tokens.front());
  const auto span = idx(tokens.back() - tokens.front());
  if (tokens.size() == span + 1) return probs[index];  // no gaps

  const auto found = std::lower_bound(tokens.begin(), tokens.end(), token);
  return *found == token ? probs[idx(found - tokens.begin())] : 0.0;
}

void Distribution::set_one_hot(Token token) {
  tokens.assign(1, token);
  probs.assign(1, 1.0);
}

void Distribution::clear_for(std::size_t capacity) {
  tokens.clear();
  probs.clear();
  tokens.reserve(capacity);
  probs.reserve(capacity);
}

void Distribution::set_dense(const double* row, int size) {
  probs.assign(row, row + size);
  tokens.resize(probs.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  drop_zeros();
}

void Distribution::drop_zeros() noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {  // entries left out are overwritten by the next
    tokens[count] = tokens[i];
    probs[count] = probs[i];
    count += probs[i] > 0.0 ? 1 : 0;
  }
  tokens.resize(count);
  probs.resize(count);
}

void remove_token(Distribution& distribution, Token token) {
  double sum = 0.0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < distribution.tokens.size(); ++i) {
    if (distribution.tokens[i] == token) continue;
    distribution.tokens[count] = distribution.tokens[i];
    distribution.probs[count] = distribution.probs[i];
    sum += distribution.probs[i];
    ++count;
  }
  distribution.tokens.resize(count);
  distribution.probs.resize(count);
  for (double& prob : distribution.probs) prob /= sum;
}

Token draw(const Distribution& distribution, double uniform) noexcept {
  double cumulative = 0.0;
  std::size_t last_positive = 0;
  for (std::size_t i = 0; i < distribution.probs.size(); ++i) {
    if (!(distribution.probs[i] > 0.0)) continue;
    cumulative += distribution.probs[i];
    if (uniform < cumulative) return distribution.tokens[i];
    last_positive = i;
  }
  return distribution.tokens[last_positive];
}

double set_excess(const Distribution& target, double weight, const Distribution& draft, Distribution& out) {
  out.clear_for(target.tokens.capacity());
  double sum = 0.0;
  std::size_t d = 0;  // both supports ascend: one merge
  for (std::size_t t = 0; t < target.tokens.size(); ++t) {
    const Token token = target.tokens[t];
    while (d < draft.tokens.size() && draft.tokens[d] < token) ++d;
    const bool drafted = d < draft.tokens.size() && draft.tokens[d] == token;
    const double excess = weight * target.probs[t] - (drafted ? draft.probs[d] : 0.0);
    if (!(excess > 0.0)) continue;
    out.tokens.push_back(token);
    out.probs.push_back(excess);
    sum += excess;
  }
  return sum;
}

void normalise(Distribution& out, double sum, const Distribution& fallback) {
  if (out.tokens.empty()) {
    out = fallback;
    return;
  }
  for (double& prob : out.probs) prob /= sum;
}

void residual(const Distribution& target, const Distribution& draft, Distribution& out) {
  const double sum = set_excess(target, 1.0, draft, out);
  normalise(out, sum, target);
}

}  // namespace specdec::sampling
