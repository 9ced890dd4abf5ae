// When to stop drafting. A rule may look at the drafts so far and at the draft's row for the next place before anything
// is sampled from it, never at a sampled token that it then withdraws: that would change the law of the output.
#pragma once

#include "speculative/sequence.h"

namespace specdec {

// Confidence, in [0, 1]: how sure the proposer is of a place. Of a row: its likeliest token's probability; of a draft: its own.
class DraftLength {
 public:
  virtual ~DraftLength() = default;

  virtual void begin_cycle(int num_sequences) = 0;
  // Before the draft reads on: is the row of the sequence's next place worth a pass?
  virtual bool worth_a_row(const Sequence& sequence) = 0;
  // The row is known, nothing is sampled from it: is a draft worth its place in the target's pass?
  virtual bool worth_a_draft(const Sequence& sequence, double row_confidence) = 0;
  // One was drawn from that row, and will be submitted.
  virtual void drafted(Sequence& sequence, double row_confidence, double confidence) = 0;
  // A one-hot proposal that was not worth it: whether the target chooses the same is learnt for nothing.
  virtual void withheld(Sequence& sequence, double row_confidence, Token token) = 0;
  // A pass of the draft model that read a token or two of each of num_rows sequences, with sampling.
  virtual void record_draft_pass(int num_rows, double seconds) = 0;
  // The drafts were verified; they are still in the sequence's tokens. target_token: the last token of the cycle.
  virtual void observe(const Sequence& sequence, int num_accepted, Token target_token) = 0;
  // num_scored: tokens in the target's pass. seconds: of the cycle; propose_seconds: of these, before that pass.
  virtual void end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) = 0;
};

}  // namespace specdec
