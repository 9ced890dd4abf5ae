// A request's rules about tokens and sequences of tokens, as ids of the vocabulary.
#pragma once

#include <vector>

#include "base/token.h"

namespace specdec::sampling {

using specdec::Token;

struct TokenRules {
  using Text = std::vector<Token>;
  struct EarlyBan {
    std::vector<Token> tokens;
    int until = 0;  // the first index in the sequence where the tokens may come
  };

  std::vector<Token> allowed;        // the only tokens that may come; empty: all may
  std::vector<Text> banned;          // the last token of each may not follow the others
  std::vector<EarlyBan> early_bans;  // for example of the end of generation, until the text has some length
  std::vector<Text> dry_breakers;    // a repetition that DRY counts begins after the last of these

  bool bans() const { return !allowed.empty() || !banned.empty() || !early_bans.empty(); }
};

}  // namespace specdec::sampling
