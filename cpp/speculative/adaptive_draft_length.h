// num_draft_tokens = "auto": draft for as long as it pays, by measured costs and learnt acceptance.
#pragma once

#include <array>

#include "speculative/draft_length.h"
#include "speculative/pass_costs.h"

namespace specdec {

// The rule behind num_draft_tokens = "auto": draft while the tokens expected of it are more than could be made in the time
// that it costs. With R tokens made per second at present, s the probability that all drafts so far are accepted, a that
// of the next one, and t the measured costs, m more drafts on top of a pass of n tokens are worth
//   s (a + a^2 + .. + a^m) - R (m t_draft + t_target(n + m) - t_target(n))
// tokens; drafting goes on while some m makes that positive. a is learnt by confidence level. Where no draft is worth its
// time this is plain decoding, but for a probe now and then, held to a hundredth of the time. It holds no clock.
class AdaptiveDraftLength final : public DraftLength {
 public:
  // A new text may be of another kind: a probe is due.
  void begin_text() { probe_is_due_ = true; }

  void begin_cycle(int num_sequences) override;
  bool worth_a_row(const Sequence& sequence) override;
  bool worth_a_draft(const Sequence& sequence, double row_confidence) override;
  void drafted(Sequence& sequence, double row_confidence, double confidence) override;
  void withheld(Sequence& sequence, double row_confidence, Token token) override;
  void record_draft_pass(double seconds) override;
  void observe(const Sequence& sequence, int num_accepted, Token target_token) override;
  void end_cycle(int num_scored, int num_made, double seconds, double propose_seconds) override;

 private:
  // The mean of the latest outcomes, beginning with a prior worth four of them.
  struct Share {
    double mean;
    double weight = 4.0;
    void add(double outcome, double window);
  };
  // By confidence, in levels that are finer where drafts are sure and many can be made.
  class ShareByConfidence {
   public:
    ShareByConfidence();  // to begin with, a draft is trusted more than it trusts itself: a few trials tell
    Share& at(double confidence);

   private:
    static constexpr std::array<double, 16> level_ends = {0.1,  0.2,  0.3,  0.4,  0.5,   0.6,   0.7,   0.8,
                                                          0.87, 0.92, 0.95, 0.97, 0.985, 0.993, 0.998, 1.0};
    std::array<Share, 16> shares_;
  };

  void learn(const DraftPlan::Confidence& confidence, bool accepted);
  double tokens_per_second() const;
  bool pays(double survival, double next_acceptance, int passes_for_next) const;

  PassCosts target_costs_;      // all of a cycle but the drafting, by tokens in the target's pass
  PassCosts draft_costs_;       // of a pass of the draft with one token to each sequence
  double recent_tokens_ = 0.0, recent_seconds_ = 0.0;  // the seconds as they should have been, undisturbed
  ShareByConfidence accepted_by_row_, accepted_by_draft_;
  Share typical_{0.8};          // acceptance of rows that are not known yet

  bool probe_is_due_ = true;
  double plain_seconds_ = 0.0;  // since the last draft

  // Of the running cycle.
  int num_sequences_ = 1;
  int draft_passes_ = 0;
  int pass_tokens_ = 1;         // in the target's pass so far
  bool probing_ = false;
};

}  // namespace specdec
