// When to stop drafting. A rule may use the drafts so far and the row for the next place before anything is sampled from it.
// It must not withdraw a sampled token because of its value: that would change the output's distribution.
#pragma once

#include "speculative/sequence.h"

namespace specdec {

// Confidences, in [0, 1]. Of a row: the probability of its most likely token. Of a draft: that token's probability.
class DraftLength {
 public:
  virtual ~DraftLength() = default;

  virtual void begin_cycle(int num_sequences) = 0;
  // Called before each pass of the draft: is the row of the sequence's next place worth a pass?
  virtual bool worth_a_row(const Sequence& sequence) = 0;
  // Called when the row is known, before sampling from it: is a draft worth its place in the target's pass?
  virtual bool worth_a_draft(const Sequence& sequence, double row_confidence) = 0;
  // A draft was sampled from that row and will be submitted.
  virtual void drafted(Sequence& sequence, double row_confidence, double confidence) = 0;
  // A one-hot proposal was not worth submitting. Comparing it with the target's choice still teaches its acceptance.
  virtual void withheld(Sequence& sequence, double row_confidence, Token token) = 0;
  // A pass of the draft model, one or two tokens for each of num_rows sequences; seconds include sampling.
  virtual void record_draft_pass(int num_rows, double seconds) = 0;
  // The drafts were verified; they are still in the sequence's tokens. target_token: the last token of the cycle.
  virtual void observe(const Sequence& sequence, int num_accepted, Token target_token) = 0;
  // num_scored: tokens in the target's pass. seconds: of the whole cycle; propose_seconds: the part before that pass.
  virtual void end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) = 0;
};

}  // namespace specdec
