// DRY ("don't repeat yourself"): lowers the logits of tokens that would continue a repetition of earlier text.
#pragma once

#include <limits>
#include <unordered_map>
#include <vector>

#include "base/argument.h"
#include "base/token.h"

namespace specdec::sampling {

using specdec::Token;

namespace ranges {
constexpr Range dry_multiplier = numbers(0.0, 1e6);
constexpr Range dry_base = numbers(1.0, 1e6);
constexpr Range dry_allowed_length = whole_numbers(0, std::numeric_limits<int>::max());
constexpr Range dry_penalty_last_n = whole_numbers(-1, std::numeric_limits<int>::max(), "-1: all, 0: off");
}  // namespace ranges

// Defaults are llama.cpp's.
struct DryParams {
  double multiplier = 0.0;  // 0: off
  double base = 1.75;
  int allowed_length = 2;
  int penalty_last_n = -1;  // how many of the latest tokens are searched for repetitions; -1: all

  bool is_on() const noexcept { return multiplier > 0.0 && penalty_last_n != 0; }
  void validate() const;  // throws WrongValue
};

// A token that followed an earlier occurrence of the last L tokens loses multiplier * base^(L - allowed_length), with
// the longest L of at least allowed_length. L does not reach back over a breaker, and breakers themselves lose nothing.
// Holds reusable buffers.
class Dry {
 public:
  Dry(const DryParams& params, const std::vector<std::vector<Token>>& breakers);

  bool is_on(int history_size) const noexcept { return params_.is_on() && history_size > params_.allowed_length; }
  // logits [size]; history: the newest last.
  void penalise(double* logits, int size, const Token* history, int history_size);

 private:
  using Rests = std::vector<std::vector<Token>>;
  int tokens_since_breaker(const Token* tokens, int count) const;
  void find_repetitions(const Token* tokens, int count);
  double penalty(int length) const;
  bool is_breaker(Token token) const;

  DryParams params_;
  std::unordered_map<Token, Rests> breakers_;  // by first token: the tokens after it
  std::vector<int> repeated_;                  // [k] how many of the last tokens also occur k tokens earlier
  std::vector<int> longest_;                   // [size] L + 1 by token; all zero between calls
};

}  // namespace specdec::sampling
