// The interface of proposers: sources of drafts, such as a draft model or n-gram lookup.
#pragma once

#include <vector>

#include "speculative/draft_length.h"
#include "speculative/sequence.h"
#include "speculative/stats.h"

namespace specdec {

struct ProposalRequest {
  Sequence* sequence;
  int num_tokens;                   // the largest K for this cycle, >= 1
  DraftLength* adaptive = nullptr;  // chooses K up to num_tokens; null: K = num_tokens
};

class Proposer {
 public:
  virtual ~Proposer() = default;

  // Appends up to num_tokens drafts to each sequence's tokens, and the distributions that they were sampled from to its
  // draft_probs (row i belongs to draft i; greedy sequences need no rows). Whether place i + 1 is drafted may depend on
  // drafts 1..i and on the row that draft i + 1 would be sampled from. Every sampled token must be submitted.
  // (Exceptions: one-hot proposals, and all proposals under Verification::invariant, may be withdrawn.) A sequence with
  // invalid draft logits gets an `error`; the others are served. Adds its passes and their times to `passes`.
  virtual void propose(const std::vector<ProposalRequest>& requests, Stats& passes) = 0;

  // The largest K that this proposer can serve after num_committed tokens, limited by its own context.
  virtual int room(int num_committed) const = 0;

  // Called while the target reads the prompt; the target has cached `length` committed tokens.
  virtual void prefill(const Sequence& sequence, int length) = 0;
  // Reads those of the first `length` committed tokens that are not read yet.
  virtual void catch_up(const Sequence& sequence, int length) { prefill(sequence, length); }

  // The tree of the sequence was verified; its nodes on this path, from the root, are committed next.
  virtual void keep_path(const Sequence& /*sequence*/, const std::vector<int>& /*path*/) {}

  // Drops the slot's state for tokens from `length` on.
  virtual void truncate(int slot, int length) = 0;
  // Replaces the state of slot `to` by a copy of the state of slot `from`.
  virtual void copy(int from, int to) = 0;

  // Takes a finished output, tokens [count], which may be proposed to other sequences.
  virtual void remember(const Token* /*output*/, int /*count*/) {}
};

}  // namespace specdec
