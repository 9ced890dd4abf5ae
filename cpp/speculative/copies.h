// Drafts that are not sampled: copies of text, and tokens that are the only ones a constraint allows.
#pragma once

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "speculative/proposer.h"

namespace specdec {

// Adds the tokens that are certain to come next because the constraint allows no others.
inline void add_only_tokens(const ProposalRequest& request) {
  Sequence& s = *request.sequence;
  if (!s.constraint) return;
  while (s.num_drafted() < request.num_tokens) {
    const Token token = s.mask(static_cast<int>(s.tokens.size()))->only_token();
    if (token < 0 || (request.adaptive != nullptr && !request.adaptive->worth_a_certain_draft(s))) return;
    s.draft_row(s.num_drafted()).set_one_hot(token);
    s.add_draft(token, DraftOrigin::constraint);
  }
}

// Drops the first copy that the constraint forbids and those after it, since the target would reject them, and what
// follows a picture in the copied text.
inline void drop_forbidden(Sequence& s, std::vector<Copy>& copies) {
  const auto is_picture = [](const Copy& copy) { return copy.token == in_picture; };
  copies.erase(std::find_if(copies.begin(), copies.end(), is_picture), copies.end());
  if (!s.constraint) return;
  const auto num_tokens = s.tokens.size();
  const auto forbidden = std::find_if(copies.begin(), copies.end(), [&](const Copy& copy) {
    const bool allowed = s.mask(static_cast<int>(s.tokens.size()))->contains(copy.token);
    if (allowed) s.tokens.push_back(copy.token);  // the next mask follows it
    return !allowed;
  });
  copies.erase(forbidden, copies.end());
  s.tokens.resize(num_tokens);
}

// Adds copies to the sequence as drafts with one-hot rows: as many as the adaptive draft length finds worthwhile, or
// with a fixed K those before the first whose confidence is below `least`. num_unread: see DraftLength. Returns how
// many were added.
inline int add_copies(const ProposalRequest& request, std::vector<Copy>& copies, double least = 0.0,
                      int num_unread = no_draft_model) {
  Sequence& s = *request.sequence;
  drop_forbidden(s, copies);
  if (copies.empty()) return 0;
  const int most = request.adaptive != nullptr ? request.adaptive->worth_copying(s, copies, num_unread)
                                               : static_cast<int>(copies.size());
  int added = 0;
  for (; added < most; ++added) {
    const Copy& copy = copies[idx(added)];
    if (request.adaptive == nullptr && copy.confidence < least) break;
    s.draft_row(s.num_drafted()).set_one_hot(copy.token);
    s.add_draft(copy.token, copy.origin);
  }
  return added;
}

// How many copies are useful at most: the remaining room for drafts.
inline int most_copies(const ProposalRequest& request) {
  const int longest = request.adaptive != nullptr ? std::min(request.num_tokens, request.adaptive->longest_draft())
                                                  : request.num_tokens;
  return std::max(0, longest - request.sequence->num_drafted());
}

}  // namespace specdec
