// When to stop drafting. A rule may use the drafts so far and the row for the next place before anything is sampled
// from it. It must not withdraw a sampled token because of its value: that would change the output's distribution.
#pragma once

#include <vector>

#include "speculative/sequence.h"

namespace specdec {

// A token that text proposes. confidence: any monotonic scale in [0, 1]; AcceptanceModel maps it.
struct Copy {
  Token token;
  double confidence;
  DraftOrigin origin = DraftOrigin::suffix;
};

constexpr int no_draft_model = -1;  // in place of the number of tokens that it has not read

// Confidences are in [0, 1]: that of a row is the probability of its most likely token, or the draft model's own
// estimate of its acceptance; that of a draft the token's probability.
class DraftLength {
 public:
  virtual ~DraftLength() = default;

  virtual void begin_cycle(int num_sequences) = 0;
  // No draft is longer than this.
  virtual int longest_draft() const { return max_draft_tokens; }
  // Text proposes these tokens for the next places: how many of them, from the first on, shall be drafts? The caller
  // adds them. num_unread: tokens that a draft model would have to read before it could propose the next one instead;
  // 0: the row is there already.
  virtual int worth_copying(Sequence& sequence, const std::vector<Copy>& copies, int num_unread) = 0;
  // The next token is certain, because a constraint allows no other: shall it be a draft? The caller adds it.
  virtual bool worth_a_certain_draft(Sequence& /*sequence*/) { return true; }
  // Called before each pass of a draft model: is the row of the sequence's next place worth a pass over num_unread
  // tokens? 0: the row is there already.
  virtual bool worth_a_row(const Sequence& sequence, int num_unread) = 0;
  // A draft model has a long text of num_unread tokens to read before it can propose anything: is that worth its time?
  virtual bool worth_catching_up(const Sequence& /*sequence*/, int /*num_unread*/) { return true; }
  // It has read num_tokens of them.
  virtual void record_catching_up(int /*num_tokens*/, double /*seconds*/) {}
  // Called when the row is known, before sampling from it: is a draft worth its place in the target's pass?
  virtual bool worth_a_draft(const Sequence& sequence, double row_confidence) = 0;
  // A draft was sampled from that row and added to the sequence.
  virtual void drafted(Sequence& sequence, DraftPlan::Confidence confidence) = 0;
  // A pass of the draft model over num_tokens tokens of num_rows sequences; seconds include sampling.
  virtual void record_draft_pass(int num_rows, int num_tokens, double seconds) = 0;
  // The drafts were verified; they are still in the sequence's tokens. target_token: the last token of the cycle.
  virtual void observe(const Sequence& sequence, int num_accepted, Token target_token) = 0;
  // num_scored: tokens in the target's pass. seconds: of the whole cycle; propose_seconds: the part before that pass.
  virtual void end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) = 0;
};

}  // namespace specdec
