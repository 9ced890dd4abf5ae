#include "sampling/transforms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/index.h"
#include "sampling/kernels.h"
#include "sampling/require.h"

namespace specdec::sampling {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

constexpr double smallest_exponent = -708.0;  // exp() of anything lower is not a normal double

// Adds -inf to the logits of tokens that are not in the mask: invalid ones stay invalid.
void forbid_others(const TokenMask& mask, double* logits, int size) {
  const std::vector<std::uint32_t>& words = mask.words();
  const std::size_t count = idx(std::max(size, 0)), known = std::min(count, words.size() * 32);
  for (std::size_t begin = 0; begin < known; begin += 32) {
    const std::uint32_t word = words[begin / 32];
    if (word == ~std::uint32_t{0}) continue;
    const std::size_t end = std::min(begin + 32, known);
    for (std::size_t i = begin; i < end; ++i) logits[i] += (word >> (i - begin) & 1u) != 0 ? 0.0 : -infinity;
  }
  for (std::size_t i = known; i < count; ++i) logits[i] -= infinity;
}

// exponents, all <= 0 -> probabilities.
void normalised_exponentials(std::vector<double>& exponents) {
  const double total = row_loops().exponentials(exponents.data(), exponents.size());
  row_loops().divide(exponents.data(), exponents.size(), total);
}

}  // namespace

void check_logit_bias(const LogitBias& logit_bias) {
  for (const auto& [token, bias] : logit_bias) {
    check_range("a token of logit_bias", token, whole_numbers(0, std::numeric_limits<Token>::max()));
    if (bias < infinity) continue;
    throw_invalid("logit_bias[" + std::to_string(token) + "]", bias, "finite, or -inf to ban the token");
  }
}

void SamplingParams::validate() const {
  check_range("temperature", temperature, ranges::temperature);
  check_range("top_k", top_k, ranges::top_k);
  check_range("top_p", top_p, ranges::top_p);
  check_range("min_p", min_p, ranges::min_p);
  check_range("repeat_penalty", repeat_penalty, ranges::repeat_penalty);
  check_range("frequency_penalty", frequency_penalty, ranges::frequency_penalty);
  check_range("presence_penalty", presence_penalty, ranges::presence_penalty);
  check_range("penalty_last_n", penalty_last_n, ranges::penalty_last_n);
  check_range("xtc_probability", xtc_probability, ranges::xtc_probability);
  check_range("xtc_threshold", xtc_threshold, ranges::xtc_threshold);
  dry.validate();
  check_logit_bias(logit_bias);
}

Transforms::Transforms(SamplingParams params, TokenRules rules)
    : params_(std::move(params)), rules_(std::move(rules)), dry_(params_.dry, rules_.dry_breakers) {
  params_.validate();
  if (rules_.allowed.empty()) return;
  const Token last = *std::max_element(rules_.allowed.begin(), rules_.allowed.end());
  allowed_.fill(last + 1, [&](std::uint32_t* words) {
    for (const Token token : rules_.allowed) words[idx(token) / 32] |= 1u << (token % 32);
  });
}

Transforms Transforms::likeliest(int count) const {
  SamplingParams params = params_;
  params.temperature = params.top_p = 1.0;
  params.min_p = params.xtc_probability = 0.0;
  params.top_k = count;
  return Transforms(std::move(params), rules_);
}

Transforms Transforms::with_tail(int count, double weight) const {
  Transforms transforms(params_, rules_);
  transforms.tail_count_ = count;
  transforms.tail_weight_ = weight;
  return transforms;
}

void Transforms::apply(const float* logits, int size, const Token* history, int history_size, Distribution& out,
                       const TokenMask* mask, double xtc_draw) {
  apply_row(logits, size, history, history_size, out, mask, xtc_draw);
}
void Transforms::apply(const double* logits, int size, const Token* history, int history_size, Distribution& out,
                       const TokenMask* mask, double xtc_draw) {
  apply_row(logits, size, history, history_size, out, mask, xtc_draw);
}
Token Transforms::argmax(const float* logits, int size, const Token* history, int history_size, const TokenMask* mask) {
  return argmax_row(logits, size, history, history_size, mask);
}
Token Transforms::argmax(const double* logits, int size, const Token* history, int history_size,
                         const TokenMask* mask) {
  return argmax_row(logits, size, history, history_size, mask);
}

template <class Logit>
void Transforms::apply_row(const Logit* logits, int size, const Token* history, int history_size, Distribution& out,
                           const TokenMask* mask, double xtc_draw) {
  if (params_.greedy()) return out.set_one_hot(argmax_row(logits, size, history, history_size, mask));
  const bool excludes_top = params_.uses_xtc() && xtc_draw < params_.xtc_probability;
  if (mask == nullptr && !adjusts_logits(history_size)) return transform(logits, size, out, excludes_top);
  transform(adjusted(logits, size, history, history_size, mask), size, out, excludes_top);
}

template <class Logit>
Token Transforms::argmax_row(const Logit* logits, int size, const Token* history, int history_size,
                             const TokenMask* mask) {
  if (mask == nullptr && !adjusts_logits(history_size)) return FoldedRow(logits, size, maxima_).argmax();
  return FoldedRow(adjusted(logits, size, history, history_size, mask), size, maxima_).argmax();
}

// Logit bias, bans, mask, penalties and DRY.

bool Transforms::adjusts_logits(int history_size) const noexcept {
  const bool penalties =
      params_.repeat_penalty != 1.0 || params_.frequency_penalty != 0.0 || params_.presence_penalty != 0.0;
  return bans() || (penalties && params_.penalty_last_n != 0 && history_size > 0) || dry_.is_on(history_size);
}

template <class Logit>
const double* Transforms::adjusted(const Logit* logits, int size, const Token* history, int history_size,
                                   const TokenMask* mask) {
  adjusted_.assign(logits, logits + std::max(size, 0));
  for (const auto& [token, bias] : params_.logit_bias) {
    if (token < size) adjusted_[idx(token)] += bias;
  }
  if (mask != nullptr) forbid_others(*mask, adjusted_.data(), size);
  ban(adjusted_.data(), size, history, history_size);
  penalise(adjusted_.data(), size, history, history_size);
  dry_.penalise(adjusted_.data(), size, history, history_size);
  return adjusted_.data();
}

void Transforms::ban(double* logits, int size, const Token* history, int history_size) const {
  if (!rules_.allowed.empty()) forbid_others(allowed_, logits, size);
  const auto forbid = [&](Token token) {
    if (token >= 0 && token < size) logits[token] -= infinity;
  };
  for (const TokenRules::EarlyBan& early : rules_.early_bans) {
    if (history_size < early.until) std::for_each(early.tokens.begin(), early.tokens.end(), forbid);
  }
  for (const TokenRules::Text& text : rules_.banned) {
    const auto before = static_cast<int>(text.size()) - 1;
    if (before < 0 || before > history_size) continue;
    if (std::equal(text.begin(), text.end() - 1, history + history_size - before)) forbid(text.back());
  }
}

void Transforms::penalise(double* logits, int size, const Token* history, int history_size) {
  const int window = params_.penalty_last_n < 0 ? history_size : std::min(params_.penalty_last_n, history_size);
  counts_.resize(idx(std::max(size, 0)), 0);
  const auto known = [size](Token token) { return token >= 0 && token < size; };
  for (int i = history_size - window; i < history_size; ++i) {
    if (known(history[i])) ++counts_[idx(history[i])];
  }
  for (int i = history_size - window; i < history_size; ++i) {
    if (!known(history[i])) continue;
    int& count = counts_[idx(history[i])];
    if (count == 0) continue;  // this token has been penalised already
    double& logit = logits[history[i]];
    logit = logit > 0.0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    logit -= count * params_.frequency_penalty + params_.presence_penalty;
    count = 0;
  }
}

// Top-k, top-p, min-p, XTC, temperature.

// Best first: top-k and top-p keep a prefix of the tokens in this order.
bool Transforms::precedes(const Candidate& a, const Candidate& b) noexcept {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

template <class Logit>
void Transforms::transform(const Logit* logits, int size, Distribution& out, bool excludes_top) {
  const FoldedRow<Logit> row(logits, size, maxima_);
  auto max_logit = static_cast<double>(logits[row.argmax()]);
  double total = 0.0;  // only for top-p
  const bool cuts = params_.top_p < 1.0 || params_.min_p > 0.0;
  if (params_.top_k > 0 && params_.top_k < size) {
    keep_top_k(row, idx(params_.top_k));
    if (params_.top_p < 1.0) total = mass(0, candidates_.size(), max_logit);
  } else {
    if (!cuts && !excludes_top) return softmax_all(logits, size, max_logit, out);
    if (params_.top_p < 1.0) total = logit_loops<Logit>().mass(logits, size, max_logit);
    if (cuts && tail_count_ > 0) keep_top_k(row, idx(std::min(size, tail_count_)));
    else keep_likely(row, size, max_logit, total);
  }
  tail_.clear();
  if (cuts && tail_count_ > 0) tail_ = candidates_;
  if (params_.top_p < 1.0) keep_top_p(max_logit, total);
  keep_min_p(max_logit);
  if (!tail_.empty()) drop_kept_from_tail();
  if (excludes_top) max_logit = exclude_top(max_logit);
  const double lower = tail_.empty() ? 0.0 : std::log(tail_weight_) * params_.temperature;
  for (const Candidate& candidate : tail_) candidates_.push_back({candidate.logit + lower, candidate.token});
  softmax(max_logit, out);
}

// What top-p and min-p keep is better than all that they leave out.
void Transforms::drop_kept_from_tail() {
  const Candidate last = *std::max_element(candidates_.begin(), candidates_.end(), precedes);
  const auto is_kept = [&](const Candidate& candidate) { return !precedes(last, candidate); };
  tail_.erase(std::remove_if(tail_.begin(), tail_.end(), is_kept), tail_.end());
}

// Without top-k: gathers every token that top-p and min-p can keep. Weights are relative to the likeliest token's. In a
// row of n tokens, those of weight below (1 - top_p) / n have less than 1 - top_p of the mass together, so top-p's
// prefix ends before them. Often the tokens of weight above 1e-3 already reach top_p: that bound is tried first.
template <class Logit>
void Transforms::keep_likely(const FoldedRow<Logit>& row, int size, double max_logit, double total) {
  const double surely_enough = params_.top_p < 1.0 ? (1.0 - params_.top_p) / size : 0.0;
  const double clear_of_rounding = 1e-9 * (1.0 + std::abs(max_logit));
  for (const double perhaps_enough : {1e-3, 0.0}) {
    const double weight = std::max({perhaps_enough, params_.min_p, surely_enough});
    if (perhaps_enough > 0.0 && params_.top_p >= 1.0 && params_.min_p < perhaps_enough) continue;
    const double floor = weight > 0.0 ? max_logit + std::log(weight) - clear_of_rounding : -infinity;
    candidates_.clear();
    row.visit_above(floor, [&](double logit, Token token) {
      candidates_.push_back({logit, token});
      return floor;
    });
    if (params_.min_p >= perhaps_enough || mass(0, candidates_.size(), max_logit) >= params_.top_p * total) return;
  }
}

template <class Logit>
void Transforms::keep_top_k(const FoldedRow<Logit>& row, std::size_t k) {
  const double floor = row.floor_of_best(k, part_maxima_);
  candidates_.clear();
  row.visit_above(floor, [&](double logit, Token token) {
    candidates_.push_back({logit, token});
    return floor;
  });
  if (candidates_.size() > k) truncate_to_best(k);
}

void Transforms::truncate_to_best(std::size_t count) {
  const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::nth_element(candidates_.begin(), last, candidates_.end(), precedes);
  candidates_.resize(count);
}

// The sum of exp(logit - max_logit), without temperature, over candidates [first, last).
double Transforms::mass(std::size_t first, std::size_t last, double max_logit) const noexcept {
  double sum = 0.0;
  for (std::size_t i = first; i < last; ++i) sum += std::exp(candidates_[i].logit - max_logit);
  return sum;
}

// Keeps the smallest prefix of the candidates, best first, whose softmax mass (without temperature) reaches top_p.
// Finds it by bisection without sorting: the prefix contains [0, first), whose mass is `before`, and ends in (first,
// last].
void Transforms::keep_top_p(double max_logit, double total) {
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

// Drops candidates that weigh less than `weight` times the maximum. Compares logits, which needs no exponentials.
void Transforms::drop_lighter(double weight, double max_logit) {
  const double bound = std::log(weight);
  const auto lighter = [=](const Candidate& candidate) { return candidate.logit - max_logit < bound; };
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), lighter), candidates_.end());
}

// XTC. Returns the highest remaining logit.
double Transforms::exclude_top(double max_logit) {
  const double least_weight = params_.xtc_threshold * mass(0, candidates_.size(), max_logit);
  const auto is_top = [&](const Candidate& candidate) { return std::exp(candidate.logit - max_logit) >= least_weight; };
  const auto others = std::partition(candidates_.begin(), candidates_.end(), is_top);
  if (others - candidates_.begin() < 2) return max_logit;
  const auto last = std::max_element(candidates_.begin(), others, precedes);
  const double logit = last->logit;
  std::iter_swap(candidates_.begin(), last);
  candidates_.erase(candidates_.begin() + 1, others);
  return logit;
}

// Temperature is applied relative to the maximum: every exponent is <= 0, so nothing overflows, and the maximum's
// weight is 1. Weights that would not be normal doubles are left out, so that no probability is zero.
void Transforms::softmax(double max_logit, Distribution& out) {
  const auto ascending = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
  if (!std::is_sorted(candidates_.begin(), candidates_.end(), ascending)) {
    std::sort(candidates_.begin(), candidates_.end(), ascending);
  }
  out.clear_for(candidates_.capacity());
  for (const Candidate& candidate : candidates_) {
    const double exponent = (candidate.logit - max_logit) / params_.temperature;
    if (exponent < smallest_exponent) continue;
    out.tokens.push_back(candidate.token);
    out.probs.push_back(exponent);
  }
  normalised_exponentials(out.probs);
}

// The same for a whole row.
template <class Logit>
void Transforms::softmax_all(const Logit* logits, int size, double max_logit, Distribution& out) {
  out.probs.resize(idx(size));
  const Weights weights = logit_loops<Logit>().weights(logits, size, max_logit, params_.temperature, out.probs.data());
  out.tokens.resize(idx(size));
  std::iota(out.tokens.begin(), out.tokens.end(), 0);
  if (!weights.all_positive) out.drop_zeros();
  row_loops().divide(out.probs.data(), out.probs.size(), weights.total);
}

}  // namespace specdec::sampling
