// Drafts from a small language model, sampled or argmax: one pass per place for all sequences together, or one pass for
// all places if the model fills blocks.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "speculative/draft_window.h"
#include "speculative/language_model.h"
#include "speculative/proposer.h"
#include "speculative/tree_drafter.h"

namespace specdec {

class DraftModelProposer final : public Proposer {
 public:
  // vocabulary_size: the target's; ids outside it are not proposed. The draft reads prompts while the target does.
  DraftModelProposer(LanguageModel& draft, int vocabulary_size);
  // The draft reads windows of `window` tokens. It reads long prompts after the first token of the output, a piece in
  // every cycle, so that no sequence waits long.
  DraftModelProposer(WindowedModel& draft, int vocabulary_size, int window);

  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override;
  int room(int num_committed) const override;
  void prefill(const Sequence& sequence, int length) override;
  void catch_up(const Sequence& sequence, int length) override;
  void truncate(int slot, int length) override;
  void copy(int from, int to) override;
  void keep_path(const Sequence& sequence, const std::vector<int>& path) override { trees_.keep_path(sequence, path); }

  // Called at the beginning of a cycle. A draft with a window reads the next piece of each prompt that it has not read
  // completely.
  void begin_cycle(const std::vector<ProposalRequest>& requests, Stats& stats);
  // Whether the draft has read enough of the text to propose what follows in this cycle.
  bool can_draft(const ProposalRequest& request) const;
  // Runs one pass for all sequences that need another draft and find it worth a pass. Those that may get a further one
  // stay in `running`.
  void extend(std::vector<ProposalRequest>& running, Stats& stats);
  // Gives trees to the sequences that want one, and removes these from `running`. look_up finds copies of text for a
  // sequence; empty: there are none.
  using LookUp = std::function<void(const ProposalRequest&, std::vector<Copy>&)>;
  void grow_trees(std::vector<ProposalRequest>& running, Stats& stats, const LookUp& look_up = nullptr);
  // Tokens that the next pass reads for the sequence; 0: its row is there already.
  int num_unread(const Sequence& sequence) const;

 private:
  int num_uncached(const Sequence& sequence) const;
  bool has_read_prompt(const ProposalRequest& request) const;
  bool needs_draft(const ProposalRequest& request) const;
  void read_prompts(const std::vector<ProposalRequest>& requests, Stats& stats);
  int read(const std::vector<ProposalRequest>& requests);
  bool draft(const ProposalRequest& request, int row);
  bool draw(const ProposalRequest& request, int row);

  LanguageModel& draft_;
  std::optional<DraftWindow> window_;  // of the draft; nullopt: it reads everything
  int vocabulary_size_;                // the smaller of both models'
  TreeDrafter trees_;
  std::vector<ProposalRequest> running_, branching_;
  std::vector<std::vector<Copy>> copies_;  // of branching_
  std::vector<PassInput> inputs_;
  std::vector<sampling::Preference> preferred_;
};

}  // namespace specdec
