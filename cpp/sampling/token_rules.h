// What a request rules about tokens and sequences of tokens, in ids of its vocabulary.
#pragma once

#include <vector>

#include "base/token.h"

namespace specdec::sampling {

using specdec::Token;

struct TokenRules {
  using Text = std::vector<Token>;
  struct EarlyBan {
    std::vector<Token> tokens;
    int until = 0;  // the index in the sequence from which on they may come
  };

  std::vector<Token> allowed;        // no others may come; empty: all may
  std::vector<Text> banned;          // the last token of each may not follow the others
  std::vector<EarlyBan> early_bans;  // as of the end of generation, for a text of some length
  std::vector<Text> dry_breakers;    // a repetition that DRY counts begins after the last of these

  bool bans() const { return !allowed.empty() || !banned.empty() || !early_bans.empty(); }
};

}  // namespace specdec::sampling
