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

  // One pass for all that need another draft and find it worth a pass. Those that may get a further one remain.
  void extend(std::vector<ProposalRequest>& running, Stats& stats);
  // Tokens that the next pass reads for the sequence: 1 or more.
  int num_unread(const Sequence& sequence) const {
    return static_cast<int>(sequence.tokens.size()) - draft_.length(sequence.slot);
  }

 private:
  bool needs_draft(const ProposalRequest& request) const;
  int read(const std::vector<ProposalRequest>& requests);
  bool draft(const ProposalRequest& request, const float* logits);
  bool draw(const ProposalRequest& request, const float* logits);

  LanguageModel& draft_;
  int vocabulary_size_;  // the smaller of both models'
  std::vector<ProposalRequest> running_;
  std::vector<PassInput> inputs_;
};

}  // namespace specdec
