// num_draft_tokens = "auto": chooses the draft length from measured costs and learnt acceptance.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "speculative/auto/acceptance_model.h"
#include "speculative/auto/auto_knowledge.h"
#include "speculative/auto/auto_options.h"
#include "speculative/auto/pass_costs.h"
#include "speculative/draft_length.h"

namespace specdec {

// What drafting is worth to one sequence by the costs measured so far. The costs are relative to a cycle without
// drafting.
struct DraftingOutlook {
  double plain_seconds = 0.0;  // of a cycle without drafting; 0: unknown
  double cost_of_8 = 0.0;      // of the target's pass over 8 tokens
  double cost_of_draft = 0.0;  // of the draft model's pass
  double acceptance = 0.0;     // expected, of a typical draft
  double speedup =
      0.0;  // expected tokens per second with the best number of drafts divided by those without drafts; 0: unknown
};

// Drafts while the expected number of accepted tokens exceeds what the current rate would produce in the same time. Let
// R be the current rate in tokens per second, s the probability that all drafts so far are accepted, a the probability
// that the next one is, and t the measured costs. Adding m drafts to a pass of n tokens gains
//   s (a + a^2 + .. + a^m) - R (m t_draft + t_target(n + m) - t_target(n))
// tokens; drafting continues while this is positive for some m. a is predicted from the proposer's confidence. Several
// sequences decide together: the target's pass has as many columns per sequence as the longest draft needs, so s is
// summed over the sequences that may continue. A pass whose size differs from the one before (or from the expected next
// one) also costs PassCosts::change().
//
// A draft model that fills blocks (it has rows without a pass of their own) pays for one pass per cycle: t_draft
// instead of m t_draft above.
//
// Copies of text cost nothing to propose and come all at once; acceptance is learnt per origin. So with a draft model,
// the rule asks at every place how many copies, followed by drafts of the model, gain more time than drafts of the
// model alone. A token is worth the time that it usually takes in cycles of the same kind, with copies or without:
// where text is copied, tokens are cheap.
//
// Exploration: some cycles (trials) use another length than the best known one: a length that could be better within
// its uncertainty, or a draft where plain decoding seems best. Trials may take 1 % of the time. The rule reads no
// clock.
class AdaptiveDraftLength final : public DraftLength {
 public:
  explicit AdaptiveDraftLength(const AutoOptions& options = {});

  // Seconds of a cycle of one sequence without drafting, measured or inferred from other cycles; 0: unknown.
  double plain_seconds() const { return target_costs_.seconds(1); }
  DraftingOutlook outlook() const;

  // What was learnt so far; nullopt if too little. begin_with() or expect() must be called before the first cycle.
  std::optional<AutoKnowledge> knowledge() const;
  void begin_with(const AutoKnowledge& known);
  // How long passes over one token are expected to take; draft_seconds 0: there is no draft model. Then the first cycle
  // drafts, and not only those after a measured one: right where a plain cycle costs more than an unlucky guess.
  void expect(double target_seconds, double draft_seconds);

  void begin_cycle(int num_sequences) override;
  int longest_draft() const override { return options_.longest_tried; }
  int worth_copying(Sequence& sequence, const std::vector<Copy>& copies, int num_unread) override;
  bool worth_a_certain_draft(Sequence& sequence) override;
  bool worth_a_row(const Sequence& sequence, int num_unread) override;
  bool worth_catching_up(const Sequence& sequence, int num_unread) override;
  void record_catching_up(int num_tokens, double seconds) override;
  bool worth_a_draft(const Sequence& sequence, double row_confidence) override;
  bool worth_a_tree(const Sequence& sequence, int num_unread, bool fills_blocks) override;
  void begin_tree() override;
  void judged(DraftOrigin origin, const DraftPlan::Confidence& confidence, bool accepted) override;
  int best_number_of_copies(const Sequence& sequence, const std::vector<Copy>& copies, int num_unread) const override;
  double probability_of(const Copy& copy) const override {
    return (copy.origin == DraftOrigin::prediction ? predicted_ : text_).of_draft(copy.confidence);
  }
  int largest_tree() const override;
  DraftPrice price_of_drafts(const GrowingTree& tree, std::vector<double>& next) const override;
  double typical_acceptance() const override { return typical_; }
  double worth_of_draft_pass(const GrowingTree& tree, int num_nodes) const override;
  double worth_of(double seconds, const GrowingTree& tree) const override { return tokens_per_second(tree) * seconds; }
  void drafted(Sequence& sequence, DraftPlan::Confidence confidence) override;
  void record_draft_pass(int num_rows, int num_tokens, double seconds) override;
  void observe(const Sequence& sequence, int num_accepted, Token target_token) override;
  void end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) override;

 private:
  // Running mean of the latest outcomes; 1 before the first outcome.
  struct Share {
    double mean = 1.0, weight = 0.0;
    void add(double outcome, double window);
  };

  enum Kind : std::size_t { by_model, by_copying };  // of drafts, and of cycles

  // What is known about drafts of one kind.
  struct Acceptance {
    explicit Acceptance(const AutoOptions& options);
    double typical() const;  // for rows like the latest
    void add_row(double confidence);
    void learn(const DraftPlan::Confidence& confidence, bool accepted);
    void forget();
    AutoKnowledge::Drafts knowledge() const;
    void begin_with(const AutoKnowledge::Drafts& known);
    double of_row(double confidence) const { return by_row.probability(confidence); }
    double of_draft(double confidence) const { return by_draft.probability(confidence); }

    AcceptanceModel by_row, by_draft;
    std::array<double, 24> row_confidences{};  // the latest ones of num_rows
    std::size_t num_rows = 0;
  };

  // Decaying sums over cycles. Seconds are predicted ones, which have no disturbances.
  struct Recent {
    double tokens = 0.0, seconds = 0.0;
    double sequence_seconds = 0.0;  // seconds times number of sequences
    void add(double share, const Recent& other);
  };

  void plan();
  double typical_of_copies() const;
  void add_row(const Copy& copy);
  void add_changes();
  std::vector<double>::const_iterator weigh();
  void choose_trial();
  bool pays(const Sequence& sequence, double next_acceptance, double drafting, bool row_is_known) const;
  bool stops(const Sequence& sequence);
  void add_place(Sequence& sequence, DraftPlan::Confidence confidence, double acceptance);
  double survival_of_others(const Sequence& sequence) const;
  double seconds_gained_by_model(double tokens, int num_drafted, int num_unread, double rate) const;
  double longer_pass(int num_drafted, int more) const;
  double catch_up(int num_unread) const;
  double seconds_saved_per_token() const;
  double tokens_per_second(Kind kind) const { return tokens_per_second(kind, Recent()); }
  double tokens_per_second(Kind kind, const Recent& running) const;
  double tokens_per_second(const GrowingTree& tree) const;
  int num_passes(int num_drafts) const { return fills_blocks_ ? std::min(num_drafts, 1) : num_drafts; }
  int columns(int num_drafts) const { return num_sequences_ * (1 + num_drafts); }
  Acceptance& acceptance_of(DraftOrigin origin) {
    return origin == DraftOrigin::model ? model_ : origin == DraftOrigin::prediction ? predicted_ : text_;
  }

  AutoOptions options_;
  PassCosts target_costs_;  // seconds of a cycle without drafting, by columns of the target's pass
  PassCosts draft_costs_;   // seconds of a draft pass, by rows
  Recent recent_[2];        // by kind of cycle
  Acceptance model_, text_;
  // Never learns: the confidences of a prediction's copies are probabilities (prediction.h).
  Acceptance predicted_;
  Share predicting_{0.0, 1.0};  // share of the latest copies that came from a prediction
  bool has_model_ = false, fills_blocks_ = false;
  Share proposing_;        // share of requests for which the proposer had something to propose
  double budget_ = 0.0;    // seconds that trials may cost now
  bool is_first_ = true;   // the first cycle has not ended yet
  bool is_known_ = false;  // costs come from an earlier process, and no cycle has been measured yet
  double seconds_run_ = 0.0;
  double reading_ = 0.0;         // seconds per token while a draft model reads a long text; 0: unknown
  double reading_budget_ = 0.0;  // seconds that reading may cost although it does not seem to pay
  double dearest_ = 0.0;         // seconds of the longest reading that did not seem to pay

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
  std::vector<double>
      standing_;     // [number of drafts] survival, summed over the sequences with that many that may continue
  int longest_ = 0;  // drafts of the sequence with the most drafts
  int num_proposing_ = 0, num_not_asked_ = 0;  // sequences
  bool is_copying_ = false;
  double draft_seconds_ = 0.0, catch_up_seconds_ = 0.0;  // the second is a part of the first
  int trial_ = -1;                                       // draft length of this cycle's trial; -1: no trial
  double trial_loss_ = 0.0;                              // seconds that the trial is expected to lose
  std::vector<double> losses_;  // [drafts] seconds that each length loses compared with the current rate
};

}  // namespace specdec
