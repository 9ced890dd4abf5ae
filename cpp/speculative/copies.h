// Drafts that are certain: copies of text, with no distribution to sample from.
#pragma once

#include <algorithm>
#include <vector>

#include "speculative/proposer.h"

namespace specdec {

// Adds copies to the sequence as drafts with one-hot rows: as many as the adaptive draft length finds worth it; with a number for
// K, those before the first with less confidence than `least`. num_unread: see DraftLength. Returns how many were added.
inline int add_copies(const ProposalRequest& request, const std::vector<Copy>& copies, DraftOrigin origin, double least = 0.0,
                      int num_unread = 0) {
  Sequence& s = *request.sequence;
  const int most = request.adaptive != nullptr ? request.adaptive->worth_copying(s, copies, num_unread) : static_cast<int>(copies.size());
  int added = 0;
  for (; added < most; ++added) {
    const Copy& copy = copies[static_cast<std::size_t>(added)];
    if (request.adaptive == nullptr && copy.confidence < least) break;
    s.draft_row(s.num_drafted()).set_one_hot(copy.token);
    s.add_draft(copy.token, origin);
  }
  return added;
}

// The most copies that are of use: room for drafts that is left.
inline int most_copies(const ProposalRequest& request) {
  const int longest = request.adaptive != nullptr ? std::min(request.num_tokens, request.adaptive->longest_draft()) : request.num_tokens;
  return std::max(0, longest - request.sequence->num_drafted());
}

}  // namespace specdec
