#include "speculative/draft_model_proposer.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "sampling/gumbel_max.h"
#include "sampling/log_softmax.h"
#include "speculative/prefill.h"
#include "speculative/reading_logits.h"

namespace specdec {

DraftModelProposer::DraftModelProposer(LanguageModel& draft, int vocabulary_size)
    : draft_(draft), vocabulary_size_(std::min(draft.vocabulary_size(), vocabulary_size)) {}

// K drafts read positions up to num_committed + K - 2: the last draft is sampled but not read.
int DraftModelProposer::room(int num_committed) const { return std::max(0, draft_.context_length() + 1 - num_committed); }

void DraftModelProposer::prefill(const Sequence& sequence, int length) {
  // Sequences longer than the draft's context get no drafts.
  if (room(sequence.num_committed) > 0) cache_tokens(draft_, sequence, length);
}

void DraftModelProposer::truncate(int slot, int length) { draft_.truncate(slot, length); }

void DraftModelProposer::copy(int from, int to) { draft_.copy(from, to); }

// Computes the rows that the first drafts are sampled from. The draft's cache can be behind: by one token after a cycle that
// accepted every draft, by more after cycles without drafts. Returns true in the second case, where the pass takes longer.
bool DraftModelProposer::read_last_tokens(const std::vector<ProposalRequest>& requests) {
  int tokens = 0;
  for (const ProposalRequest& request : requests) tokens += request.sequence->num_committed - draft_.length(request.sequence->slot);
  if (tokens > draft_.batch_size()) {
    for (const ProposalRequest& request : requests) cache_tokens(draft_, *request.sequence, request.sequence->num_committed - 1);
  }
  inputs_.clear();
  bool far_behind = false;
  for (const ProposalRequest& request : requests) {
    const Sequence& s = *request.sequence;
    const int cached = draft_.length(s.slot);
    inputs_.push_back({s.slot, s.tokens.data() + cached, s.num_committed - cached, 1});
    far_behind = far_behind || s.num_committed - cached > 2;
  }
  draft_.decode(inputs_);
  return far_behind;
}

void DraftModelProposer::read_drafts() {
  inputs_.clear();
  for (const ProposalRequest& request : running_) inputs_.push_back({request.sequence->slot, &request.sequence->tokens.back(), 1, 1});
  draft_.decode(inputs_);
}

// Appends a token sampled from the row. Returns false if the row makes a draft not worthwhile, or holds invalid logits.
bool DraftModelProposer::draft(const ProposalRequest& request, const float* logits) {
  try {
    return reading_logits_of("draft", [&] { return draw(request, logits); });
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
  Token token = 0;
  double row_confidence = 0.0, confidence = 0.0;
  const bool greedy = s.transforms.params().greedy();
  if (greedy || s.drafting == Drafting::argmax) {
    token = s.transforms.argmax(logits, vocabulary_size_, s.tokens.data(), history);
    if (request.adaptive != nullptr) row_confidence = confidence = std::exp(sampling::log_softmax(logits, vocabulary_size_, token));
    if (!worth_a_draft(row_confidence)) return false;
    if (!greedy) s.draft_row(place).set_one_hot(token);
  } else {
    sampling::Distribution& row = s.draft_row(place);
    s.transforms.apply(logits, vocabulary_size_, s.tokens.data(), history, row);
    row_confidence = *std::max_element(row.probs.begin(), row.probs.end());
    if (!worth_a_draft(row_confidence)) return false;
    token = s.verification == Verification::invariant
                ? sampling::gumbel_max(row, *s.uniforms, history)
                : sampling::draw(row, s.uniforms->uniform(s.num_committed, place, sampling::Purpose::draft));
    confidence = row.probability(token);
  }
  s.tokens.push_back(token);
  if (request.adaptive != nullptr) request.adaptive->drafted(s, row_confidence, confidence);
  return true;
}

void DraftModelProposer::propose(const std::vector<ProposalRequest>& requests, Stats& stats) {
  const auto worth_a_row = [](const ProposalRequest& r) { return r.adaptive == nullptr || r.adaptive->worth_a_row(*r.sequence); };
  running_.clear();
  std::copy_if(requests.begin(), requests.end(), std::back_inserter(running_), worth_a_row);
  for (bool first = true; !running_.empty(); first = false) {
    double pass_seconds = 0.0;
    bool catching_up = false;
    {
      Stopwatch pass(pass_seconds);
      {
        Stopwatch watch(stats.draft_seconds);
        if (first) catching_up = read_last_tokens(running_);
        else read_drafts();
        ++stats.draft_calls;
      }
      Stopwatch watch(stats.sampling_seconds);
      going_on_.clear();
      for (std::size_t row = 0; row < running_.size(); ++row) {
        const ProposalRequest& r = running_[row];
        const float* logits = draft_.logits(static_cast<int>(row));
        if (!draft(r, logits) || r.sequence->num_drafted() >= r.num_tokens || draft_.is_end_of_generation(r.sequence->tokens.back()))
          continue;
        if (worth_a_row(r)) going_on_.push_back(r);
      }
    }
    const auto adaptive = std::find_if(running_.begin(), running_.end(), [](const ProposalRequest& r) { return r.adaptive != nullptr; });
    if (adaptive != running_.end() && !catching_up) adaptive->adaptive->record_draft_pass(static_cast<int>(running_.size()), pass_seconds);
    running_.swap(going_on_);
  }
}

}  // namespace specdec
