#include "speculative/combined_proposer.h"

#include "speculative/copies.h"

namespace specdec {

void CombinedProposer::prefill(const Sequence& sequence, int length) {
  model_.prefill(sequence, length);
  text_.prefill(sequence, length);
}

void CombinedProposer::truncate(int slot, int length) {
  model_.truncate(slot, length);
  text_.truncate(slot, length);
}

void CombinedProposer::copy(int from, int to) {
  model_.copy(from, to);
  text_.copy(from, to);
}

// After the last copy that is worth its place, the model is asked, so further copies have to follow from its draft.
void CombinedProposer::add_copies_of_text(const ProposalRequest& request) {
  Sequence& s = *request.sequence;
  text_.look_up(s, most_copies(request), copies_);
  if (copies_.empty()) return;
  const int num_unread = model_.can_draft(request) ? model_.num_unread(s) : no_draft_model;
  add_copies(request, copies_, least_confidence_, num_unread);
}

void CombinedProposer::propose(const std::vector<ProposalRequest>& requests, Stats& stats) {
  model_.begin_cycle(requests, stats);
  running_ = requests;
  model_.grow_trees(running_, stats, [this](const ProposalRequest& request, std::vector<Copy>& copies) {
    text_.look_up(*request.sequence, most_copies(request), copies);
    drop_forbidden(*request.sequence, copies);
  });
  while (!running_.empty()) {
    {
      Stopwatch watch(stats.draft_seconds);
      for (const ProposalRequest& request : running_) add_copies_of_text(request);
    }
    model_.extend(running_, stats);
  }
}

}  // namespace specdec
