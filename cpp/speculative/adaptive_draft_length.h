// num_draft_tokens = "auto": draft for as long as it pays, by measured costs and learnt acceptance.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "speculative/acceptance_model.h"
#include "speculative/draft_length.h"
#include "speculative/pass_costs.h"

namespace specdec {

// The rule behind num_draft_tokens = "auto": draft while the tokens expected of it are more than could be made in the time
// that it costs. With R tokens made per second at present, s the probability that all drafts so far are accepted, a that
// of the next one, and t the measured costs, m more drafts on top of a pass of n tokens are worth
//   s (a + a^2 + .. + a^m) - R (m t_draft + t_target(n + m) - t_target(n))
// tokens; drafting goes on while some m makes that positive. a is learnt by confidence. Several sequences decide together:
// the target's pass has as many columns for each as the longest draft needs, so s is summed over those that may go on.
// A pass of another length than the one before, or than the one to come, costs what a change does.
//
// What is believed is checked: now and then a cycle has another length, one that might be better for all that is known or,
// where none is worth its time, a draft all the same. That may cost a hundredth of the time. The rule holds no clock.
class AdaptiveDraftLength final : public DraftLength {
 public:
  AdaptiveDraftLength();

  void begin_cycle(int num_sequences) override;
  bool worth_a_row(const Sequence& sequence) override;
  bool worth_a_draft(const Sequence& sequence, double row_confidence) override;
  void drafted(Sequence& sequence, double row_confidence, double confidence) override;
  void withheld(Sequence& sequence, double row_confidence, Token token) override;
  void record_draft_pass(int num_rows, double seconds) override;
  void observe(const Sequence& sequence, int num_accepted, Token target_token) override;
  void end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) override;

 private:
  // The mean of the latest outcomes, beginning with a prior worth four of them.
  struct Share {
    double mean;
    double weight = 4.0;
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

  PassCosts target_costs_;                             // all of a cycle but the drafting, by columns of the target's pass
  PassCosts draft_costs_;                              // by rows
  double recent_tokens_ = 0.0, recent_seconds_ = 0.0;  // the seconds as they should have been, undisturbed
  double recent_sequence_seconds_ = 0.0;               // of every sequence
  AcceptanceModel accepted_by_row_, accepted_by_draft_;
  std::array<double, 24> row_confidences_;  // the latest
  std::size_t next_row_ = 0;
  Share proposing_{1.0};  // of the sequences whose proposer was asked, those for which there was something to propose
  double budget_ = 0.0;   // seconds that trials may cost
  bool is_first_ = true;  // cycle
  double seconds_run_ = 0.0;

  // The plan, which lasts for some cycles where nothing is drafted.
  double typical_ = 0.0;             // acceptance of rows that are not known yet
  double draft_pass_ = 0.0;          // seconds
  std::vector<double> target_pass_;  // [drafts of the longest], changes included, as far as passes may be tried
  double next_trial_ = 0.0;          // what the cheapest one would lose, in seconds
  int plan_age_ = 0;
  int plan_follows_ = 0;    // columns of the pass before
  std::size_t steady_ = 0;  // length that cycles come back to
  double regret_ = 0.0;     // seconds lost by not having moved it

  // Of the running cycle.
  int num_sequences_ = 1;
  std::vector<double> standing_;               // [number of drafts] survival, summed over the sequences that have so many and may go on
  int longest_ = 0;                            // draft
  int num_proposing_ = 0, num_not_asked_ = 0;  // sequences
  double draft_seconds_ = 0.0;
  int trial_ = -1;              // drafts for each sequence, whatever seems best; -1: none
  double trial_loss_ = 0.0;     // expected of it, in seconds
  std::vector<double> losses_;  // [drafts] seconds lost to the present rate
};

}  // namespace specdec
