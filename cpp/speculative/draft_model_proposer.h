// Drafts from a small language model, sampled or argmax: one pass per place for all sequences together.
#pragma once

#include <vector>

#include "speculative/language_model.h"
#include "speculative/proposer.h"

namespace specdec {

class DraftModelProposer final : public Proposer {
 public:
  // vocabulary_size: the target's; ids outside it are not proposed.
  DraftModelProposer(LanguageModel& draft, int vocabulary_size);

  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override;
  int room(int num_committed) const override;
  void prefill(const Sequence& sequence, int length) override;
  void truncate(int slot, int length) override;
  void copy(int from, int to) override;

 private:
  bool read_last_tokens(const std::vector<ProposalRequest>& requests);
  void read_drafts();
  bool draft(const ProposalRequest& request, const float* logits);
  bool draw(const ProposalRequest& request, const float* logits);

  LanguageModel& draft_;
  int vocabulary_size_;  // the smaller of both models'
  std::vector<ProposalRequest> running_, going_on_;
  std::vector<PassInput> inputs_;
};

}  // namespace specdec
