// Where drafts come from: a small model, or the text itself.
#pragma once

#include <vector>

#include "speculative/draft_length.h"
#include "speculative/sequence.h"
#include "speculative/stats.h"

namespace specdec {

struct ProposalRequest {
  Sequence* sequence;
  int num_tokens;                   // K for this cycle at most, >= 1
  DraftLength* adaptive = nullptr;  // decides how many of these; null: all
};

class Proposer {
 public:
  virtual ~Proposer() = default;

  // Appends up to num_tokens drafts to each sequence's tokens, and to its draft_probs (row i belongs to draft i) the
  // distribution that each was really sampled from; greedy sequences need no rows. Whether place i + 1 is drafted may
  // depend on drafts 1..i and on the row that draft i + 1 would be sampled from, never on a draft that is then withdrawn: every
  // token sampled is submitted. (One-hot proposals, and any under Verification::invariant, may be withdrawn freely.)
  // A sequence whose draft row means nothing gets an `error`; the others are served.
  virtual void propose(const std::vector<ProposalRequest>& requests, Stats& stats) = 0;

  // The largest K this proposer can serve after num_committed tokens (its own context may be the shorter one).
  virtual int room(int num_committed) const = 0;

  // Reads the first `length` committed tokens ahead of the first proposal.
  virtual void prefill(const Sequence& sequence, int length) = 0;

  // Forgets what it knows of the slot's tokens from `length` on.
  virtual void truncate(int slot, int length) = 0;
  // Makes what it knows of slot `to` what it knows of slot `from`.
  virtual void copy(int from, int to) = 0;
};

}  // namespace specdec
