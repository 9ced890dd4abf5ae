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
namespace {

constexpr int read_at_once = 64;  // tokens; reading them takes no longer than a few drafts
constexpr int piece = 256;        // tokens of a long prompt read in one cycle

int last_token(const Sequence& s) { return static_cast<int>(s.tokens.size()) - 1; }

// Whether the output depends on the drafts' distributions, so that it repeats only if they do.
bool depends_on_drafts(const ProposalRequest& request) {
  const Sequence& s = *request.sequence;
  const bool is_repeatable = request.adaptive == nullptr;
  return is_repeatable && s.verification != Verification::invariant && !s.transforms.params().greedy();
}

}  // namespace

DraftModelProposer::DraftModelProposer(LanguageModel& draft, int vocabulary_size)
    : draft_(draft),
      vocabulary_size_(std::min(draft.vocabulary_size(), vocabulary_size)),
      trees_(draft, vocabulary_size_) {}

DraftModelProposer::DraftModelProposer(WindowedModel& draft, int vocabulary_size, int window)
    : DraftModelProposer(draft, vocabulary_size) {
  window_.emplace(draft, window);
}

// K drafts read positions up to num_committed + K - 2: the last draft is sampled but not read. All drafts are read in
// the window of the last committed token: the window would have to move back if a draft in a later one were rejected.
int DraftModelProposer::room(int num_committed) const {
  if (window_) return window_->end(num_committed - 1) + 1 - num_committed;
  return std::max(0, draft_.context_length() + 1 - num_committed);
}

void DraftModelProposer::prefill(const Sequence& sequence, int length) {
  // Sequences longer than the draft's context get no drafts.
  if (!window_ && room(sequence.num_committed) > 0) cache_tokens(draft_, sequence, length);
}

void DraftModelProposer::catch_up(const Sequence& sequence, int length) {
  if (window_) window_->open(sequence, length);
  if (room(sequence.num_committed) > 0) cache_tokens(draft_, sequence, length);
}

void DraftModelProposer::truncate(int slot, int length) {
  if (window_) window_->truncate(slot, length);
  else draft_.truncate(slot, length);
}

void DraftModelProposer::copy(int from, int to) { draft_.copy(from, to); }

int DraftModelProposer::num_uncached(const Sequence& s) const {
  return window_ ? window_->num_unread(s.slot, last_token(s)) : last_token(s) + 1 - draft_.length(s.slot);
}

int DraftModelProposer::num_unread(const Sequence& s) const {
  return draft_.has_row(s.slot, last_token(s) + 1) ? 0 : num_uncached(s);
}

// With a fixed K, the cycle in which drafts begin depends only on the prompt's length, not on how much of it is cached:
// a seed must repeat its output.
bool DraftModelProposer::has_read_prompt(const ProposalRequest& request) const {
  const Sequence& s = *request.sequence;
  if (!window_ || s.stats.prompt_tokens <= read_at_once) return true;
  if (request.adaptive != nullptr) return num_unread(s) <= read_at_once;
  const auto read = std::min<std::int64_t>(s.stats.prompt_tokens, window_->size());
  return s.stats.target_calls >= (read + piece - 1) / piece;
}

bool DraftModelProposer::can_draft(const ProposalRequest& request) const {
  const Sequence& s = *request.sequence;
  if (!window_) return last_token(s) < std::min(draft_.context_length(), draft_.end(s.slot));
  return last_token(s) < window_->end(s.num_committed - 1) && has_read_prompt(request);
}

// The window that another request left in the slot depends on where that request began to read.
void DraftModelProposer::begin_cycle(const std::vector<ProposalRequest>& requests, Stats& stats) {
  for (const ProposalRequest& request : requests) {
    const Sequence& s = *request.sequence;
    draft_.expect_drafts(s.slot, s.chooses_draft_length() ? max_draft_tokens : s.num_draft_tokens);
  }
  if (window_) read_prompts(requests, stats);
}

void DraftModelProposer::read_prompts(const std::vector<ProposalRequest>& requests, Stats& stats) {
  for (const ProposalRequest& request : requests) {
    Sequence& s = *request.sequence;
    const bool is_first_cycle = s.stats.target_calls == 0;
    if (is_first_cycle && depends_on_drafts(request) && window_->begin(last_token(s)) > 0) window_->clear(s.slot);
    if (is_first_cycle || has_read_prompt(request)) continue;
    if (request.adaptive != nullptr && !request.adaptive->worth_catching_up(s, num_unread(s))) continue;
    double seconds = 0.0;
    int num_read = 0;
    {
      Stopwatch watch(seconds);
      num_read = window_->read_before(s, last_token(s), piece);
    }
    stats.draft_seconds += seconds;
    s.stats.draft_tokens_read += num_read;
    if (request.adaptive != nullptr && num_read > 0) request.adaptive->record_catching_up(num_read, seconds);
  }
}

bool DraftModelProposer::needs_draft(const ProposalRequest& request) const {
  const Sequence& s = *request.sequence;
  if (s.num_drafted() >= request.num_tokens || !can_draft(request)) return false;
  const bool has_ended =
      s.num_drafted() > 0 && (draft_.is_end_of_generation(s.tokens.back()) || s.is_stop_token(s.tokens.back()));
  if (has_ended) return false;
  return request.adaptive == nullptr || request.adaptive->worth_a_row(s, num_unread(s));
}

// Computes the rows that the next drafts are sampled from. Returns the number of tokens read: 0 if all rows are there,
// more than one per sequence if the draft's cache is behind (after a cycle that accepted every draft, after copies, and
// after cycles without drafts).
int DraftModelProposer::read(const std::vector<ProposalRequest>& requests) {
  int num_tokens = 0;
  for (const ProposalRequest& request : requests) {
    Sequence& s = *request.sequence;
    const int num_opened = window_ ? window_->open(s, last_token(s)) : 0;
    num_tokens += num_unread(s);
    s.stats.draft_tokens_read += num_opened + num_unread(s);
  }
  if (num_tokens > draft_.batch_size()) {
    for (const ProposalRequest& request : requests)
      cache_tokens(draft_, *request.sequence, static_cast<int>(request.sequence->tokens.size()) - 1);
  }
  inputs_.clear();
  for (const ProposalRequest& request : requests) {
    const Sequence& s = *request.sequence;
    if (s.num_drafted() > 0 && draft_.length(s.slot) <= s.num_committed)
      draft_.checkpoint(s.slot, 0);  // before the first draft is read
    inputs_.push_back({s.slot, s.tokens.data() + draft_.length(s.slot), num_uncached(s), 1});
  }
  draft_.decode(inputs_);
  return num_tokens;
}

// Appends a token sampled from the row. Returns false if the row makes a draft not worthwhile or holds invalid logits,
// or if the constraint and the bans allow none of the draft model's tokens.
bool DraftModelProposer::draft(const ProposalRequest& request, int row) {
  try {
    return reading_logits_of("draft", [&] {
      try {
        return draw(request, row);
      } catch (const sampling::NoTokenLeft&) {
        const Sequence& s = *request.sequence;
        if (!s.constraint && !s.transforms.bans()) throw;
        return false;
      }
    });
  } catch (...) {
    request.sequence->error = std::current_exception();
    return false;
  }
}

bool DraftModelProposer::draw(const ProposalRequest& request, int row) {
  Sequence& s = *request.sequence;
  const float* const logits = draft_.logits(row);
  const int place = s.num_drafted();
  const int history = static_cast<int>(s.tokens.size());
  const sampling::TokenMask* const mask = s.mask(history);
  Token token = 0;
  double row_confidence = 0.0, confidence = 0.0;
  const auto worth_a_draft = [&](double likeliest) {
    if (request.adaptive == nullptr) return true;
    row_confidence = draft_.confidence(row).value_or(likeliest);
    return request.adaptive->worth_a_draft(s, row_confidence);
  };
  const bool greedy = s.transforms.params().greedy();
  if (greedy || s.drafting == Drafting::argmax) {
    token = s.transforms.argmax(logits, vocabulary_size_, s.tokens.data(), history, mask);
    if (request.adaptive != nullptr) confidence = std::exp(sampling::log_softmax(logits, vocabulary_size_, token));
    if (!worth_a_draft(confidence)) return false;
    if (!greedy) s.draft_row(place).set_one_hot(token);
  } else {
    sampling::Distribution& probs = s.draft_row(place);
    s.transforms.apply(logits, vocabulary_size_, s.tokens.data(), history, probs, mask, s.xtc_draw(history));
    if (s.verification == Verification::invariant) {  // the draft is known before it is made, and may be looked at
      sampling::gumbel_order(probs, *s.uniforms, history, preferred_);
      token = preferred_.front().token;
      confidence = preferred_.front().share;
      if (!worth_a_draft(confidence)) return false;
    } else {
      if (!worth_a_draft(*std::max_element(probs.probs.begin(), probs.probs.end()))) return false;
      token = sampling::draw(probs, s.uniforms->uniform(s.num_committed, place, sampling::Purpose::draft));
      confidence = probs.probability(token);
    }
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
      if (num_tokens > 0) ++stats.draft_calls;
    }
    Stopwatch watch(stats.sampling_seconds);
    int row = 0;
    const auto has_ended = [&](const ProposalRequest& r) { return !draft(r, row++); };
    running.erase(std::remove_if(running.begin(), running.end(), has_ended), running.end());
  }
  if (rule != nullptr && num_tokens > 0) rule->record_draft_pass(num_rows, num_tokens, seconds);
}

// A draft model that cannot read trees, or has not read the text yet, proposes chains.
void DraftModelProposer::grow_trees(std::vector<ProposalRequest>& running, Stats& stats, const LookUp& look_up) {
  branching_.clear();
  const auto branches = [&](const ProposalRequest& request) {
    const Sequence& s = *request.sequence;
    if (s.max_tree_size == 0 || !draft_.reads_trees() || !can_draft(request)) return false;
    DraftLength* const rule = s.tree_adapts ? request.adaptive : nullptr;
    if (s.tree_adapts && (rule == nullptr || !rule->worth_a_tree(s, num_unread(s), draft_.fills_blocks())))
      return false;
    copies_.resize(std::max(copies_.size(), branching_.size() + 1));
    std::vector<Copy>& copies = copies_[branching_.size()];
    copies.clear();
    if (look_up) look_up(request, copies);
    if (rule != nullptr) {
      if (!trees_.adds_to(request, copies, num_unread(s))) return false;
      rule->begin_tree();
    }
    branching_.push_back(request);
    return true;
  };
  {
    Stopwatch watch(stats.draft_seconds);
    running.erase(std::remove_if(running.begin(), running.end(), branches), running.end());
  }
  if (branching_.empty()) return;
  double seconds = 0.0;
  int num_tokens = 0;
  {
    Stopwatch watch(seconds);
    num_tokens = read(branching_);
  }
  if (num_tokens > 0) ++stats.draft_calls;
  stats.draft_seconds += seconds;
  DraftLength* const rule = branching_.front().adaptive;
  if (rule != nullptr && num_tokens > 0)
    rule->record_draft_pass(static_cast<int>(branching_.size()), num_tokens, seconds);
  trees_.grow(branching_, copies_, stats);
}

void DraftModelProposer::propose(const std::vector<ProposalRequest>& requests, Stats& stats) {
  begin_cycle(requests, stats);
  running_ = requests;
  grow_trees(running_, stats);
  while (!running_.empty()) extend(running_, stats);
}

}  // namespace specdec
