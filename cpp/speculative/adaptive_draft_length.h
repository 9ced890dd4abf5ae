// num_draft_tokens = "auto": chooses the draft length from measured costs and learnt acceptance.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "speculative/acceptance_model.h"
#include "speculative/auto_options.h"
#include "speculative/draft_length.h"
#include "speculative/pass_costs.h"

namespace specdec {

// What drafting is worth to one sequence, by the costs measured so far; times are relative to a cycle without drafting.
struct DraftingOutlook {
  double plain_seconds = 0.0;  // of a cycle without drafting; 0: unknown
  double cost_of_8 = 0.0;      // of the target's pass over 8 tokens
  double cost_of_draft = 0.0;  // of the draft model's pass
  double acceptance = 0.0;     // expected, of a typical draft
  double speedup = 0.0;        // expected tokens per second with the best number of drafts, over those without drafts; 0: unknown
};

// Drafts while the expected number of accepted tokens exceeds what the current rate would make in the same time. Let R be the
// current tokens per second, s the probability that all drafts so far are accepted, a that of the next one, t the measured
// costs. Adding m drafts to a pass of n tokens gains
//   s (a + a^2 + .. + a^m) - R (m t_draft + t_target(n + m) - t_target(n))
// tokens; drafting continues while this is positive for some m. a is predicted from the proposer's confidence. Several
// sequences decide together: the target's pass has as many columns per sequence as the longest draft needs, so s is summed
// over the sequences that may continue. A pass whose size differs from the one before (or from the expected next one) also
// costs PassCosts::change().
//
// Exploration: some cycles (trials) use another length than the best known one: a length that its uncertainty allows to be
// better, or a draft where not drafting seems best. Trials may take 1 % of the time. The rule reads no clock.
class AdaptiveDraftLength final : public DraftLength {
 public:
  explicit AdaptiveDraftLength(const AutoOptions& options = {});

  // Of a cycle of one sequence without drafting, as measured so far or concluded from other cycles; 0: unknown.
  double plain_seconds() const { return target_costs_.seconds(1); }
  DraftingOutlook outlook() const;

  void begin_cycle(int num_sequences) override;
  bool worth_a_row(const Sequence& sequence) override;
  bool worth_a_draft(const Sequence& sequence, double row_confidence) override;
  void drafted(Sequence& sequence, double row_confidence, double confidence) override;
  void withheld(Sequence& sequence, double row_confidence, Token token) override;
  void record_draft_pass(int num_rows, double seconds) override;
  void observe(const Sequence& sequence, int num_accepted, Token target_token) override;
  void end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) override;

 private:
  // Running mean of the latest outcomes; 1 before the first.
  struct Share {
    double mean = 1.0, weight = 0.0;
    void add(double outcome, double window);
  };

  void plan();
  void add_changes();
  std::vector<double>::const_iterator weigh();
  void choose_trial();
  bool pays(const Sequence& sequence, double next_acceptance, bool row_is_known) const;
  bool goes_on(const Sequence& sequence, double next_acceptance, bool row_is_known);
  double survival_of_others(const Sequence& sequence) const;
  double tokens_per_second() const;
  double typical_acceptance() const;
  int columns(int num_drafts) const { return num_sequences_ * (1 + num_drafts); }
  void learn(const DraftPlan::Confidence& confidence, bool accepted);

  AutoOptions options_;
  PassCosts target_costs_;                             // seconds of a cycle without drafting, by columns of the target's pass
  PassCosts draft_costs_;                              // seconds of a draft pass, by rows
  double recent_tokens_ = 0.0, recent_seconds_ = 0.0;  // decaying sums; seconds as predicted, without disturbances
  double recent_sequence_seconds_ = 0.0;               // seconds times number of sequences
  AcceptanceModel accepted_by_row_, accepted_by_draft_;
  std::array<double, 24> row_confidences_;  // the latest
  std::size_t next_row_ = 0;
  Share proposing_;       // share of requests for which the proposer had something to propose
  double budget_ = 0.0;   // seconds that trials may cost
  bool is_first_ = true;  // the first cycle has not ended yet
  double seconds_run_ = 0.0;

  // The plan. It is reused for some cycles while nothing is drafted.
  double typical_ = 0.0;             // expected acceptance of rows that are not known yet
  double draft_pass_ = 0.0;          // seconds of a draft pass
  std::vector<double> target_pass_;  // [longest draft] seconds of the target's pass, changes of size included
  double next_trial_ = 0.0;          // seconds that the cheapest trial would lose
  int plan_age_ = 0;                 // cycles
  int plan_follows_ = 0;             // columns of the target's pass before the plan was made
  std::size_t steady_ = 0;           // the draft length that cycles usually have
  double regret_ = 0.0;              // seconds lost so far by not changing steady_

  // The running cycle.
  int num_sequences_ = 1;
  std::vector<double> standing_;               // [number of drafts] survival, summed over the sequences with that many that may continue
  int longest_ = 0;                            // drafts of the sequence with most drafts
  int num_proposing_ = 0, num_not_asked_ = 0;  // sequences
  double draft_seconds_ = 0.0;
  int trial_ = -1;              // draft length of this cycle's trial; -1: no trial
  double trial_loss_ = 0.0;     // seconds that the trial is expected to lose
  std::vector<double> losses_;  // [drafts] seconds that each length loses compared with the current rate
};

}  // namespace specdec
