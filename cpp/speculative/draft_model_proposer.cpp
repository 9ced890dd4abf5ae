#include "speculative/draft_model_proposer.h"

#include <algorithm>

#include "sampling/race.h"
#include "speculative/error.h"
#include "speculative/prefill.h"

namespace specdec {

DraftModelProposer::DraftModelProposer(LanguageModel& draft, int vocabulary_size)
    : draft_(draft), vocabulary_size_(std::min(draft.vocabulary_size(), vocabulary_size)) {}

// K drafts read positions up to num_committed + K - 2: the last one is sampled but never read.
int DraftModelProposer::room(int num_committed) const { return std::max(0, draft_.context_length() + 1 - num_committed); }

void DraftModelProposer::prefill(const Sequence& sequence) {
  // A text longer than the draft's context will not be drafted for.
  if (room(sequence.num_committed) > 0) cache_tokens(draft_, sequence, sequence.num_committed - 1);
}

void DraftModelProposer::truncate(int slot, int length) { draft_.truncate(slot, length); }

// The rows that the first drafts are sampled from. More than the last token is read where the cache is behind: by one
// after a cycle that accepted every draft, by more after cycles that drafted nothing.
void DraftModelProposer::read_last_tokens(const std::vector<ProposalRequest>& requests) {
  int tokens = 0;
  for (const ProposalRequest& request : requests) tokens += request.sequence->num_committed - draft_.length(request.sequence->slot);
  if (tokens > draft_.batch_size()) {
    for (const ProposalRequest& request : requests) cache_tokens(draft_, *request.sequence, request.sequence->num_committed - 1);
  }
  inputs_.clear();
  for (const ProposalRequest& request : requests) {
    const Sequence& s = *request.sequence;
    const int cached = draft_.length(s.slot);
    inputs_.push_back({s.slot, s.tokens.data() + cached, s.num_committed - cached, 1});
  }
  draft_.decode(inputs_);
}

Token DraftModelProposer::sample(Sequence& s, const float* logits) {
  const int place = s.num_drafted();
  const int history = static_cast<int>(s.tokens.size());
  const bool greedy = s.transforms.params().greedy();
  if (greedy || s.drafting == Drafting::argmax) {
    const Token best = s.transforms.argmax(logits, vocabulary_size_, s.tokens.data(), history);
    if (!greedy) s.draft_row(place).set_one_hot(best);
    return best;
  }
  sampling::Distribution& row = s.draft_row(place);
  s.transforms.apply(logits, vocabulary_size_, s.tokens.data(), history, row);
  if (s.verification == Verification::invariant) return sampling::race(row, *s.uniforms, history);
  return sampling::draw(row, s.uniforms->uniform(s.num_committed, place, sampling::Purpose::draft));
}

void DraftModelProposer::propose(const std::vector<ProposalRequest>& requests, Stats& stats) {
  running_ = requests;
  {
    Stopwatch watch(stats.draft_seconds);
    read_last_tokens(running_);
  }
  while (true) {
    {
      Stopwatch watch(stats.sampling_seconds);
      for (std::size_t i = 0; i < running_.size(); ++i) {
        Sequence& s = *running_[i].sequence;
        const float* logits = draft_.logits(static_cast<int>(i));
        s.tokens.push_back(reading_logits_of("draft", [&] { return sample(s, logits); }));
      }
    }
    const auto done = [this](const ProposalRequest& r) {
      return r.sequence->num_drafted() >= r.num_tokens || draft_.is_end_of_generation(r.sequence->tokens.back());
    };
    running_.erase(std::remove_if(running_.begin(), running_.end(), done), running_.end());
    if (running_.empty()) return;

    Stopwatch watch(stats.draft_seconds);
    inputs_.clear();
    for (const ProposalRequest& request : running_) inputs_.push_back({request.sequence->slot, &request.sequence->tokens.back(), 1, 1});
    draft_.decode(inputs_);
  }
}

}  // namespace specdec
