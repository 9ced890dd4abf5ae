// A draft model together with suffix decoding: copies where the text repeats itself, drafts of the model elsewhere.
// Within one cycle the model may continue after copies, and copies may follow its drafts.
#pragma once

#include <vector>

#include "speculative/draft_model_proposer.h"
#include "speculative/suffix_proposer.h"

namespace specdec {

// The adaptive draft length chooses the source of every place. With a fixed K, a copy is taken if its confidence is at
// least least_confidence, which is about how often a model's drafts are accepted.
class CombinedProposer final : public Proposer {
 public:
  CombinedProposer(DraftModelProposer model, std::shared_ptr<const CorpusIndex> corpus = nullptr,
                   CopiedTexts texts = CopiedTexts::all, double least_confidence = 0.75)
      : model_(std::move(model)), text_(std::move(corpus), texts), least_confidence_(least_confidence) {}

  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override;
  int room(int num_committed) const override { return text_.room(num_committed); }
  void prefill(const Sequence& sequence, int length) override;
  void catch_up(const Sequence& sequence, int length) override { model_.catch_up(sequence, length); }
  void truncate(int slot, int length) override;
  void copy(int from, int to) override;
  void keep_path(const Sequence& sequence, const std::vector<int>& path) override { model_.keep_path(sequence, path); }
  void remember(const Token* output, int count) override { text_.remember(output, count); }

 private:
  void add_copies_of_text(const ProposalRequest& request);

  DraftModelProposer model_;
  SuffixProposer text_;
  double least_confidence_;
  std::vector<ProposalRequest> running_;
  std::vector<Copy> copies_;
};

}  // namespace specdec
