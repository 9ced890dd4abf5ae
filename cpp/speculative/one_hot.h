// Drafts that are certain: proposals of a token without a distribution to sample from, such as a copy of earlier text.
#pragma once

#include "speculative/proposer.h"

namespace specdec {

// Appends the token as a draft, with a one-hot row, unless the adaptive draft length finds that it is not worth submitting.
// Then it is recorded as withheld, and the result is false. confidence: any monotonic scale; AcceptanceModel maps it.
inline bool submit_one_hot(const ProposalRequest& request, Token token, double confidence) {
  Sequence& s = *request.sequence;
  if (request.adaptive != nullptr) {
    if (!request.adaptive->worth_a_draft(s, confidence)) {
      request.adaptive->withheld(s, confidence, token);
      return false;
    }
    request.adaptive->drafted(s, confidence, confidence);
  }
  s.draft_row(s.num_drafted()).set_one_hot(token);
  s.tokens.push_back(token);
  return true;
}

}  // namespace specdec
