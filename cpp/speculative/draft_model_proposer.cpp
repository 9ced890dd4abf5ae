#include "speculative/draft_model_proposer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sampling/gumbel_max.h"
#include "sampling/log_softmax.h"
#include "speculative/copies.h"
#include "speculative/prefill.h"
#include "speculative/reading_logits.h"

namespace specdec {

DraftModelProposer::DraftModelProposer(LanguageModel& draft, int vocabulary_size)
    : draft_(draft), vocabulary_size_(std::min(draft.vocabulary_size(), vocabulary_size)) {}

// K drafts read positions up to num_committed + K - 2: the last draft is sampled but not read.
int DraftModelProposer::room(int num_committed) const {
  return std::max(0, draft_.context_length() + 1 - num_committed);
}

void DraftModelProposer::prefill(const Sequence& sequence, int length) {
  // Sequences longer than the draft's context get no drafts.
  if (room(sequence.num_committed) > 0) cache_tokens(draft_, sequence, length);
}

void DraftModelProposer::truncate(int slot, int length) { draft_.truncate(slot, length); }

void DraftModelProposer::copy(int from, int to) { draft_.copy(from, to); }

bool DraftModelProposer::needs_draft(const ProposalRequest& request) const {
  const Sequence& s = *request.sequence;
  if (s.num_drafted() >= request.num_tokens || room(static_cast<int>(s.tokens.size())) == 0) return false;
  if (s.num_drafted() > 0 && draft_.is_end_of_generation(s.tokens.back())) return false;
  return request.adaptive == nullptr || request.adaptive->worth_a_row(s, num_unread(s));
}

// Computes the rows that the next drafts are sampled from. Returns the number of tokens read. It is more than one per
// sequence where the draft's cache is behind: after a cycle that accepted every draft, after copies and after cycles
// without drafts.
int DraftModelProposer::read(const std::vector<ProposalRequest>& requests) {
  int num_tokens = 0;
  for (const ProposalRequest& request : requests) num_tokens += num_unread(*request.sequence);
  if (num_tokens > draft_.batch_size()) {
    for (const ProposalRequest& request : requests)
      cache_tokens(draft_, *request.sequence, static_cast<int>(request.sequence->tokens.size()) - 1);
  }
  inputs_.clear();
  for (const ProposalRequest& request : requests) {
    const Sequence& s = *request.sequence;
    if (s.num_drafted() > 0 && draft_.length(s.slot) <= s.num_committed)
      draft_.checkpoint(s.slot, 0);  // before the first draft is read
    inputs_.push_back({s.slot, s.tokens.data() + draft_.length(s.slot), num_unread(s), 1});
  }
  draft_.decode(inputs_);
  return num_tokens;
}

// Appends a token sampled from the row. Returns false if the row makes a draft not worthwhile, or holds invalid logits,
// or if the draft model can propose none of the tokens that the constraint and the bans allow.
bool DraftModelProposer::draft(const ProposalRequest& request, const float* logits) {
  try {
    return reading_logits_of("draft", [&] {
      try {
        return draw(request, logits);
      } catch (const sampling::NoTokenLeft&) {
        const Sequence& s = *request.sequence;
        if (!s.constraint && s.transforms.params().logit_bias.empty()) throw;
        return false;
      }
    });
  } catch (const ModelError&) {
    request.sequence->error = std::current_exception();
    return false;
  }
}

bool DraftModelProposer::draw(const ProposalRequest& request, const float* logits) {
  Sequence& s = *request.sequence;
  const int place = s.num_drafted();
  const int history = static_cast<int>(s.tokens.size());
  const auto worth_a_draft = [&](double row_confidence) {
    return request.adaptive == nullptr || request.adaptive->worth_a_draft(s, row_confidence);
  };
  const sampling::TokenMask* const mask = s.mask(history);
  Token token = 0;
  double row_confidence = 0.0, confidence = 0.0;
  const bool greedy = s.transforms.params().greedy();
  if (greedy || s.drafting == Drafting::argmax) {
    token = s.transforms.argmax(logits, vocabulary_size_, s.tokens.data(), history, mask);
    if (request.adaptive != nullptr)
      row_confidence = confidence = std::exp(sampling::log_softmax(logits, vocabulary_size_, token));
    if (!worth_a_draft(row_confidence)) return false;
    if (!greedy) s.draft_row(place).set_one_hot(token);
  } else {
    sampling::Distribution& row = s.draft_row(place);
    s.transforms.apply(logits, vocabulary_size_, s.tokens.data(), history, row, mask);
    row_confidence = *std::max_element(row.probs.begin(), row.probs.end());
    if (!worth_a_draft(row_confidence)) return false;
    token = s.verification == Verification::invariant
                ? sampling::gumbel_max(row, *s.uniforms, history)
                : sampling::draw(row, s.uniforms->uniform(s.num_committed, place, sampling::Purpose::draft));
    confidence = row.probability(token);
  }
  s.add_draft(token, DraftOrigin::model);
  if (request.adaptive != nullptr) request.adaptive->drafted(s, {row_confidence, confidence});
  return true;
}

void DraftModelProposer::extend(std::vector<ProposalRequest>& running, Stats& stats) {
  for (const ProposalRequest& request : running) add_only_tokens(request);
  running.erase(
      std::remove_if(running.begin(), running.end(), [&](const ProposalRequest& r) { return !needs_draft(r); }),
      running.end());
  if (running.empty()) return;
  const auto num_rows = static_cast<int>(running.size());
  const auto adaptive =
      std::find_if(running.begin(), running.end(), [](const ProposalRequest& r) { return r.adaptive != nullptr; });
  DraftLength* const rule = adaptive != running.end() ? adaptive->adaptive : nullptr;
  double seconds = 0.0;
  int num_tokens = 0;
  {
    Stopwatch pass(seconds);
    {
      Stopwatch watch(stats.draft_seconds);
      num_tokens = read(running);
      ++stats.draft_calls;
    }
    Stopwatch watch(stats.sampling_seconds);
    int row = 0;
    const auto has_ended = [&](const ProposalRequest& r) { return !draft(r, draft_.logits(row++)); };
    running.erase(std::remove_if(running.begin(), running.end(), has_ended), running.end());
  }
  if (rule != nullptr) rule->record_draft_pass(num_rows, num_tokens, seconds);
}

void DraftModelProposer::propose(const std::vector<ProposalRequest>& requests, Stats& stats) {
  running_ = requests;
  while (!running_.empty()) extend(running_, stats);
}

}  // namespace specdec
