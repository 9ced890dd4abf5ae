// Rules for when to stop drafting. A rule may use the drafts so far, and the row for the next place before anything is
// sampled from it. It must not withdraw a sampled token because of its value: that would change the output's
// distribution.
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

// The drafts so far, and how many of them are expected to be accepted.
struct GrowingTree {
  int num_drafted;
  double accepted;
  bool is_copied = false;  // of text: then a token is worth as much time as in other cycles that copy
};

// What drafts have to gain to be worth their time, in tokens.
struct DraftPrice {
  double least = 0.0;  // the lowest chance of those that pay together; more than 1 if none do
  double each = 0.0;   // what each of them costs, in the mean
  bool is_met() const { return least <= 1.0; }
};

constexpr int no_draft_model = -1;  // used instead of the number of tokens that a draft model has not read

// Confidences are in [0, 1]. A row's confidence is the probability of its most likely token, or the draft model's own
// estimate of acceptance; a draft's confidence is the token's probability.
// An interface, so that the loop has no clock, and tests need none.
class DraftLength {
 public:
  virtual ~DraftLength() = default;

  virtual void begin_cycle(int num_sequences) = 0;
  // No draft is longer than this.
  virtual int longest_draft() const { return max_draft_tokens; }
  // How many of these copies for the next places should become drafts, starting with the first? The caller adds them.
  // num_unread: tokens that a draft model would have to read before it could propose the next token instead; 0: the row
  // is there already.
  virtual int worth_copying(Sequence& sequence, const std::vector<Copy>& copies, int num_unread) = 0;
  // The next token is certain, because a constraint allows no other. Should it become a draft? The caller adds it.
  virtual bool worth_a_certain_draft(Sequence& /*sequence*/) { return true; }
  // Called before each pass of a draft model. Is the row of the sequence's next place worth a pass over num_unread
  // tokens? 0: the row is there already.
  virtual bool worth_a_row(const Sequence& sequence, int num_unread) = 0;
  // Is it worth letting a draft model read num_unread tokens of a long text before it can propose anything?
  virtual bool worth_catching_up(const Sequence& /*sequence*/, int /*num_unread*/) { return true; }
  // The draft model has read num_tokens of them.
  virtual void record_catching_up(int /*num_tokens*/, double /*seconds*/) {}
  // Called when the row is known, before sampling from it. Is a draft worth its place in the target's pass?
  virtual bool worth_a_draft(const Sequence& sequence, double row_confidence) = 0;
  // Is a tree worth growing, with a draft model that has not read num_unread tokens? fills_blocks:
  // LanguageModel::fills_blocks() of the draft.
  virtual bool worth_a_tree(const Sequence& /*sequence*/, int /*num_unread*/, bool /*fills_blocks*/) { return false; }
  // One is grown; then this is not asked for rows and drafts in this cycle.
  virtual void begin_tree() {}
  // Of a tree that was grown: a copy, or the first draft from a row, was verified.
  virtual void judged(DraftOrigin /*origin*/, const DraftPlan::Confidence& /*confidence*/, bool /*accepted*/) {}
  // How many of these copies would become the first drafts of a chain? As worth_copying(), but nothing is noted.
  virtual int best_number_of_copies(const Sequence& /*sequence*/, const std::vector<Copy>& copies,
                                    int /*num_unread*/) const {
    return static_cast<int>(copies.size());
  }
  // That the target accepts it, after the drafts before it.
  virtual double probability_of(const Copy& copy) const { return copy.confidence; }
  // No tree has more drafts than this.
  virtual int largest_tree() const { return max_draft_tokens; }
  // Of the drafts that a growing tree may get next. next: the chances of those that are known, in any order; the rule
  // adds typical children, and leaves the vector changed.
  virtual DraftPrice price_of_drafts(const GrowingTree& /*tree*/, std::vector<double>& /*next*/) const { return {}; }
  // The expected acceptance of a draft whose row is not known yet.
  virtual double typical_acceptance() const { return 0.5; }
  // What a pass of the draft model over num_nodes nodes of a growing tree has to gain to be worth its time, in tokens.
  virtual double worth_of_draft_pass(const GrowingTree& /*tree*/, int /*num_nodes*/) const { return 0.0; }
  // The same for anything that takes so many seconds.
  virtual double worth_of(double /*seconds*/, const GrowingTree& /*tree*/) const { return 0.0; }
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
