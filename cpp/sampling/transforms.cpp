#include "sampling/transforms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "sampling/require.h"

namespace specdec::sampling {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

[[noreturn]] void throw_bad_logit(double logit, Token token) {
  throw std::invalid_argument(std::string("logits contain ") + (std::isnan(logit) ? "NaN" : "+inf") +
                              " (first at id " + std::to_string(token) + ")");
}

[[noreturn]] void throw_nothing_finite(int size) {
  throw std::invalid_argument("no finite logit among " + std::to_string(size) +
                              ": no token has a probability above zero");
}

// Calls visit(logit, token) for every logit above floor, in ascending token order; visit returns the new floor.
// NaN and +inf are never at or below a floor, so they are found on the way, at no cost.
template <class Logit, class Visit>
void visit_above_floor(const Logit* logits, int size, Visit visit) {
  double floor = -kInfinity;
  for (Token token = 0; token < size; ++token) {
    const double logit = logits[token];
    if (logit <= floor) continue;
    if (!(logit < kInfinity)) throw_bad_logit(logit, token);
    floor = visit(logit, token);
  }
}

}  // namespace

void SamplingParams::validate() const {
  require(temperature >= 0.0 && temperature < kInfinity, "temperature", temperature, "finite and >= 0");
  require(top_k >= 0, "top_k", top_k, ">= 0 (0: off)");
  require(top_p > 0.0 && top_p <= 1.0, "top_p", top_p, "in (0, 1]");
  require(min_p >= 0.0 && min_p <= 1.0, "min_p", min_p, "in [0, 1]");
  require(repeat_penalty > 0.0 && repeat_penalty < kInfinity, "repeat_penalty", repeat_penalty, "finite and > 0");
  require(std::isfinite(frequency_penalty), "frequency_penalty", frequency_penalty, "finite");
  require(std::isfinite(presence_penalty), "presence_penalty", presence_penalty, "finite");
  require(penalty_last_n >= -1, "penalty_last_n", penalty_last_n, ">= -1 (-1: all, 0: off)");
  for (const auto& [token, bias] : logit_bias) {
    require(token >= 0, "logit_bias token", token, ">= 0");
    if (bias < kInfinity) continue;
    throw_invalid("logit_bias[" + std::to_string(token) + "]", bias, "finite, or -inf to ban the token");
  }
}

Transforms::Transforms(SamplingParams params) : params_(std::move(params)) { params_.validate(); }

void Transforms::apply(const float* logits, int size, const Token* history, int history_size, Distribution& out) {
  apply_row(logits, size, history, history_size, out);
}
void Transforms::apply(const double* logits, int size, const Token* history, int history_size, Distribution& out) {
  apply_row(logits, size, history, history_size, out);
}
Token Transforms::argmax(const float* logits, int size, const Token* history, int history_size) {
  return argmax_row(logits, size, history, history_size);
}
Token Transforms::argmax(const double* logits, int size, const Token* history, int history_size) {
  return argmax_row(logits, size, history, history_size);
}

template <class Logit>
void Transforms::apply_row(const Logit* logits, int size, const Token* history, int history_size, Distribution& out) {
  if (params_.greedy()) return out.set_one_hot(argmax_row(logits, size, history, history_size));
  if (!adjusts_logits(history_size)) return transform(logits, size, out);
  transform(adjusted(logits, size, history, history_size), size, out);
}

template <class Logit>
Token argmax_of(const Logit* logits, int size) {
  Token best = -1;
  visit_above_floor(logits, size, [&](double logit, Token token) {
    best = token;
    return logit;
  });
  if (best < 0) throw_nothing_finite(size);
  return best;
}

template <class Logit>
Token Transforms::argmax_row(const Logit* logits, int size, const Token* history, int history_size) {
  if (!adjusts_logits(history_size)) return argmax_of(logits, size);
  return argmax_of(adjusted(logits, size, history, history_size), size);
}

// Logit bias and penalties.

bool Transforms::adjusts_logits(int history_size) const noexcept {
  const bool penalties =
      params_.repeat_penalty != 1.0 || params_.frequency_penalty != 0.0 || params_.presence_penalty != 0.0;
  return !params_.logit_bias.empty() || (penalties && params_.penalty_last_n != 0 && history_size > 0);
}

template <class Logit>
const double* Transforms::adjusted(const Logit* logits, int size, const Token* history, int history_size) {
  adjusted_.assign(logits, logits + std::max(size, 0));
  for (const auto& [token, bias] : params_.logit_bias) {
    if (token < size) adjusted_[static_cast<std::size_t>(token)] += bias;
  }
  penalise(adjusted_.data(), size, history, history_size);
  return adjusted_.data();
}

void Transforms::penalise(double* logits, int size, const Token* history, int history_size) {
  const int window = params_.penalty_last_n < 0 ? history_size : std::min(params_.penalty_last_n, history_size);
  counts_.resize(static_cast<std::size_t>(std::max(size, 0)), 0);
  const auto known = [size](Token token) { return token >= 0 && token < size; };
  for (int i = history_size - window; i < history_size; ++i) {
    if (known(history[i])) ++counts_[static_cast<std::size_t>(history[i])];
  }
  for (int i = history_size - window; i < history_size; ++i) {
    if (!known(history[i])) continue;
    int& count = counts_[static_cast<std::size_t>(history[i])];
    if (count == 0) continue;  // a repetition: done
    double& logit = logits[history[i]];
    logit = logit > 0.0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    logit -= count * params_.frequency_penalty + params_.presence_penalty;
    count = 0;
  }
}

// Top-k, top-p, min-p, temperature.

// The order that top-k and top-p keep a prefix of.
bool Transforms::precedes(const Candidate& a, const Candidate& b) noexcept {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

template <class Logit>
void Transforms::transform(const Logit* logits, int size, Distribution& out) {
  keep_top_k(logits, size);
  if (candidates_.empty()) throw_nothing_finite(size);
  const double max_logit = std::min_element(candidates_.begin(), candidates_.end(), precedes)->logit;
  keep_top_p(max_logit);
  keep_min_p(max_logit);
  softmax(max_logit, out);
}

// One pass over the row: a logit at or below the k-th best so far is out (ids ascend, so a tie goes to the earlier
// one); the others are gathered, and cut to the best k whenever there are 2k of them.
template <class Logit>
void Transforms::keep_top_k(const Logit* logits, int size) {
  const auto k = static_cast<std::size_t>(params_.top_k > 0 ? std::min(params_.top_k, size) : std::max(size, 0));
  double kth_best = -kInfinity;
  candidates_.clear();
  visit_above_floor(logits, size, [&](double logit, Token token) {
    candidates_.push_back({logit, token});
    if (candidates_.size() == 2 * k) {
      truncate_to_best(k);
      kth_best = candidates_[k - 1].logit;
    }
    return kth_best;
  });
  if (candidates_.size() > k) truncate_to_best(k);
}

// Afterwards the worst of those kept is the last.
void Transforms::truncate_to_best(std::size_t count) {
  const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::nth_element(candidates_.begin(), last, candidates_.end(), precedes);
  candidates_.resize(count);
}

// Un-tempered softmax weights, relative to the maximum's, of the candidates in [first, last).
double Transforms::mass(std::size_t first, std::size_t last, double max_logit) const noexcept {
  double sum = 0.0;
  for (std::size_t i = first; i < last; ++i) sum += std::exp(candidates_[i].logit - max_logit);
  return sum;
}

// The smallest prefix of the candidates, best first, whose share of the un-tempered softmax reaches top_p. Found by
// bisection, with no sort: the prefix has all of [0, first), whose mass is `before`, and ends within (first, last].
void Transforms::keep_top_p(double max_logit) {
  if (params_.top_p >= 1.0) return;
  const double total = mass(0, candidates_.size(), max_logit);
  // Together, candidates below an equal share of 1 - top_p cannot hold that much: the prefix is among the others.
  drop_lighter((1.0 - params_.top_p) * total / static_cast<double>(candidates_.size()), max_logit);

  std::size_t first = 0, last = candidates_.size();
  double before = 0.0;
  while (last - first > 1) {
    const std::size_t middle = first + (last - first) / 2;
    const auto begin = candidates_.begin();
    std::nth_element(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(middle),
                     begin + static_cast<std::ptrdiff_t>(last), precedes);
    const double better_half = mass(first, middle, max_logit);
    if (before + better_half >= params_.top_p * total) {
      last = middle;
    } else {
      first = middle;
      before += better_half;
    }
  }
  candidates_.resize(last);
}

void Transforms::keep_min_p(double max_logit) {
  if (params_.min_p > 0.0) drop_lighter(params_.min_p, max_logit);
}

// Drops what weighs less than weight (in units of the maximum's), by logits: no exponential per candidate.
void Transforms::drop_lighter(double weight, double max_logit) {
  const double bound = std::log(weight);
  const auto lighter = [=](const Candidate& candidate) { return candidate.logit - max_logit < bound; };
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), lighter), candidates_.end());
}

// Temperature is applied relative to the maximum: every exponent is <= 0, so nothing overflows. A weight below the
// smallest normal double is zero, which leaves no zero among the probabilities; the maximum's weight is 1.
void Transforms::softmax(double max_logit, Distribution& out) {
  const auto ascending = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
  if (!std::is_sorted(candidates_.begin(), candidates_.end(), ascending)) {
    std::sort(candidates_.begin(), candidates_.end(), ascending);
  }
  out.tokens.clear();
  out.probs.clear();
  double total = 0.0;
  for (const Candidate& candidate : candidates_) {
    const double weight = std::exp((candidate.logit - max_logit) / params_.temperature);
    if (weight < std::numeric_limits<double>::min()) continue;
    out.tokens.push_back(candidate.token);
    out.probs.push_back(weight);
    total += weight;
  }
  for (double& prob : out.probs) prob /= total;
}

}  // namespace specdec::sampling
