// Prompt lookup: the text's own continuation of its last few tokens, wherever they stood before. Costs no model.
#pragma once

#include "speculative/proposer.h"

namespace specdec {

class NgramProposer final : public Proposer {
 public:
  // Looks for the last max_ngram tokens, then for fewer, down to min_ngram.
  explicit NgramProposer(int max_ngram = 3, int min_ngram = 1);

  // One-hot proposals: dropping or shortening them is free of bias.
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override;
  int room(int) const override { return max_draft_tokens; }
  void prefill(const Sequence&, int) override {}
  void truncate(int, int) override {}
  void copy(int, int) override {}

 private:
  int max_ngram_;
  int min_ngram_;
};

}  // namespace specdec
