// Prompt lookup: proposes the tokens that followed an earlier occurrence of the sequence's last few tokens. Needs no
// model.
#pragma once

#include "speculative/proposer.h"

namespace specdec {

class NgramProposer final : public Proposer {
 public:
  // Searches for the last max_ngram tokens, then for fewer, down to min_ngram.
  explicit NgramProposer(int max_ngram = 3, int min_ngram = 1);

  // Proposals are one-hot, so they may be dropped or shortened without bias.
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override;
  int room(int) const override { return max_draft_tokens; }
  void prefill(const Sequence&, int) override {}
  void truncate(int, int) override {}
  void copy(int, int) override {}

 private:
  int max_ngram_;
  int min_ngram_;
  std::vector<Copy> copies_;
};

}  // namespace specdec
