// Turns a row of logits into the distribution to sample from: llama.cpp's transforms in its default order, in float64.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "base/argument.h"
#include "sampling/distribution.h"
#include "sampling/dry.h"
#include "sampling/folded_row.h"
#include "sampling/token_mask.h"
#include "sampling/token_rules.h"

namespace specdec::sampling {

// The ranges of the parameters. Those of penalties are wide enough for any use and keep logits finite.
namespace ranges {
constexpr Range temperature = numbers_from(0.0);
constexpr Range top_k = whole_numbers(0, std::numeric_limits<int>::max(), "0: off");
constexpr Range top_p = numbers_above(0.0, 1.0);
constexpr Range min_p = numbers(0.0, 1.0);
constexpr Range repeat_penalty = numbers(1e-6, 1e6);
constexpr Range frequency_penalty = numbers(-1e6, 1e6);
constexpr Range presence_penalty = numbers(-1e6, 1e6);
constexpr Range penalty_last_n = whole_numbers(-1, std::numeric_limits<int>::max(), "-1: all, 0: off");
constexpr Range xtc_probability = numbers(0.0, 1.0);
constexpr Range xtc_threshold = numbers(0.0, 1.0);
}  // namespace ranges

// Added to the logit of an id >= 0; finite, or -inf: ban.
using LogitBias = std::vector<std::pair<Token, double>>;
void check_logit_bias(const LogitBias& logit_bias);  // throws WrongValue

// Defaults are llama.cpp's.
struct SamplingParams {
  double temperature = 0.8;        // below 1e-5 is greedy
  int top_k = 40;                  // 0: off
  double top_p = 0.95;             // 1: off
  double min_p = 0.05;             // 0: off
  double repeat_penalty = 1.0;     // 1: off
  double frequency_penalty = 0.0;  // 0: off
  double presence_penalty = 0.0;   // 0: off
  int penalty_last_n = 64;         // number of latest tokens the penalties count, -1: all
  LogitBias logit_bias;
  DryParams dry;
  double xtc_probability = 0.0;  // of leaving out the most likely tokens, see Transforms; 0: off
  double xtc_threshold = 0.1;    // above 0.5: off

  bool greedy() const noexcept { return temperature < 1e-5; }
  bool uses_xtc() const noexcept { return xtc_probability > 0.0 && xtc_threshold <= 0.5 && !greedy(); }
  void validate() const;  // throws WrongValue
};

// Turns rows of logits into distributions:
//   logit bias, bans and mask -> penalties -> DRY -> top-k -> top-p -> min-p -> XTC -> temperature -> softmax
// Ties go to the lower token id everywhere. Holds reusable buffers: one object per sequence, not thread-safe.
//
// XTC ("exclude top choices") applies to a row with probability xtc_probability: of the tokens with probability
// xtc_threshold or more (before temperature), all but the least likely are left out. A random number in [0, 1) decides;
// it is the same for every row of one place in the text (Sequence::xtc_draw).
//
// logits [size] of float or double: -inf means probability zero; NaN, +inf, and rows with only -inf throw
// std::invalid_argument (the last case NoTokenLeft). history: the tokens so far, the newest last. Bias and history ids
// >= size are ignored. mask: the allowed tokens; null: all.
class Transforms {
 public:
  explicit Transforms(SamplingParams params, TokenRules rules = {});

  const SamplingParams& params() const noexcept { return params_; }
  // The same bias, bans and penalties, and the rows that they leave: the `count` likeliest tokens at temperature 1.
  Transforms likeliest(int count) const;
  // The same, but of the `count` likeliest tokens those that top-p and min-p would leave out stay, with `weight` times
  // their probability. For drafts: another model's row may have them.
  Transforms with_tail(int count, double weight) const;
  // Whether tokens may be banned, so that possibly no token is left.
  bool bans() const noexcept { return !params_.logit_bias.empty() || rules_.bans(); }

  void apply(const float* logits, int size, const Token* history, int history_size, Distribution& out,
             const TokenMask* mask = nullptr, double xtc_draw = 1.0);
  void apply(const double* logits, int size, const Token* history, int history_size, Distribution& out,
             const TokenMask* mask = nullptr, double xtc_draw = 1.0);

  // The token with the highest logit after bias, bans, mask, penalties and DRY. If params().greedy(), apply() gives its
  // one-hot distribution.
  Token argmax(const float* logits, int size, const Token* history, int history_size, const TokenMask* mask = nullptr);
  Token argmax(const double* logits, int size, const Token* history, int history_size, const TokenMask* mask = nullptr);

 private:
  struct Candidate {
    double logit;
    Token token;
  };
  static bool precedes(const Candidate& a, const Candidate& b) noexcept;

  template <class Logit>
  void apply_row(const Logit* logits, int size, const Token* history, int history_size, Distribution& out,
                 const TokenMask* mask, double xtc_draw);
  template <class Logit>
  Token argmax_row(const Logit* logits, int size, const Token* history, int history_size, const TokenMask* mask);

  bool adjusts_logits(int history_size) const noexcept;
  template <class Logit>
  const double* adjusted(const Logit* logits, int size, const Token* history, int history_size, const TokenMask* mask);
  void ban(double* logits, int size, const Token* history, int history_size) const;
  void penalise(double* logits, int size, const Token* history, int history_size);

  template <class Logit>
  void transform(const Logit* logits, int size, Distribution& out, bool excludes_top);
  template <class Logit>
  void keep_top_k(const FoldedRow<Logit>& row, std::size_t k);
  template <class Logit>
  void keep_likely(const FoldedRow<Logit>& row, int size, double max_logit, double total);
  void truncate_to_best(std::size_t count);
  double mass(std::size_t first, std::size_t last, double max_logit) const noexcept;
  void keep_top_p(double max_logit, double total);
  void keep_min_p(double max_logit);
  void drop_kept_from_tail();
  void drop_lighter(double weight, double max_logit);
  double exclude_top(double max_logit);
  void softmax(double max_logit, Distribution& out);
  template <class Logit>
  void softmax_all(const Logit* logits, int size, double max_logit, Distribution& out);

  SamplingParams params_;
  TokenRules rules_;
  TokenMask allowed_;  // rules_.allowed
  Dry dry_;
  int tail_count_ = 0;  // 0: no tail
  double tail_weight_ = 0.0;
  std::vector<Candidate> tail_;        // what top-p and min-p have left out
  std::vector<Candidate> candidates_;  // tokens that the transforms so far have kept, in any order
  std::vector<double> maxima_;         // of the folded row
  std::vector<double> part_maxima_;    // of larger parts of it, for top-k
  std::vector<double> adjusted_;       // [size] the row after bias, bans, mask, penalties and DRY
  std::vector<int> counts_;            // [size] occurrences in the penalty window; all zero between calls
};

}  // namespace specdec::sampling
