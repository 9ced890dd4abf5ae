#include "speculative/decoder.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "sampling/dead_end.h"
#include "sampling/gumbel_max.h"
#include "sampling/log_softmax.h"
#include "sampling/verify_block.h"
#include "sampling/verify_token.h"
#include "speculative/prefill.h"
#include "speculative/reading_logits.h"

namespace specdec {
namespace {

// Verification where the target's choice is determined: greedy decoding, or Gumbel-max with the noise of the position.
template <class TargetChoice>
sampling::Verdict accept_while_equal(const Token* drafted, int num_drafted, TargetChoice&& target_choice) {
  for (int place = 0;; ++place) {
    const Token choice = target_choice(place);
    if (place == num_drafted || drafted[place] != choice) return {place, choice};
  }
}

// Reading a few more tokens in a pass costs little. Tokens read along are not in the next checkpoint, so their number
// grows until they are read in a pass of their own.
constexpr int max_tokens_read_along = 12;

void count_accepted(Stats& stats, DraftOrigin origin, int count) {
  if (origin != DraftOrigin::none) stats.accepted += count;
  if (is_copy(origin)) stats.accepted_copies += count;
  if (origin == DraftOrigin::prediction) stats.accepted_predicted += count;
}

// What leaves the accepted path, up to each of the tree's ends; of a chain, what was not accepted.
std::vector<std::vector<Token>> branches_off(const Sequence& s, const std::vector<int>& path, int num_accepted) {
  std::vector<std::vector<Token>> branches;
  const auto first = s.tokens.begin() + s.num_committed + (s.tree.size() == 0 ? num_accepted : 0);
  if (first != s.tokens.end()) branches.emplace_back(first, s.tokens.end());
  const std::vector<int>& parents = s.tree.parents;
  for (int end = 0; end < s.tree.size(); ++end) {
    if (std::find(parents.begin(), parents.end(), end) != parents.end()) continue;
    std::vector<Token> branch;
    for (int node = end; node >= 0 && std::find(path.begin(), path.end(), node) == path.end();
         node = parents[idx(node)])
      branch.insert(branch.begin(), s.tree.tokens[idx(node)]);
    if (!branch.empty()) branches.push_back(std::move(branch));
  }
  return branches;
}

}  // namespace

Decoder::Decoder(LanguageModel& target, Proposer* proposer, DraftLength* draft_length)
    : target_(target), proposer_(proposer), draft_length_(draft_length) {
  rows_.reserve(max_draft_tokens + 1);
}

bool Decoder::prefill(Sequence& s, int max_tokens) {
  Stopwatch watch(s.stats.prompt_seconds);
  // Reserves the largest size the sequence can reach, drafts included, so that cycles do not allocate.
  const std::size_t room =
      idx(std::min(s.remaining, std::max(0, target_.context_length() - s.num_committed)) + max_draft_tokens + 1);
  s.tokens.reserve(s.tokens.size() + room);
  s.emitted.reserve(max_draft_tokens + 1);
  s.top_logprobs.reserve(idx(s.num_top_logprobs) * (max_draft_tokens + 1));
  s.plan.places.reserve(max_draft_tokens);
  s.plan.withheld.reserve(max_draft_tokens + 1);
  try {
    target_.expect_prompt(s.slot, s.num_committed - 1);
    const int end = prefill_end(s, max_tokens);
    if (s.prompt_score) score_tokens(target_, s, end);
    else cache_tokens(target_, s, end);
    if (proposer_ != nullptr && s.num_draft_tokens != 0) proposer_->prefill(s, end);
    return end == s.num_committed - 1;
  } catch (...) {
    restore(s);
    throw;
  }
}

int Decoder::prefill_end(const Sequence& s, int max_tokens) const {
  return specdec::prefill_end(target_, s, target_.length(s.slot), s.num_committed - 1, max_tokens);
}

int Decoder::capacity(const std::vector<Sequence*>& sequences) const {
  int longest = 0;
  for (const Sequence* s : sequences)
    longest = std::max(longest, s->num_draft_tokens);  // "auto" (-1) adapts to the room
  return std::max(1, target_.row_capacity() / (1 + longest));
}

void Decoder::cycle(const std::vector<Sequence*>& sequences) {
  cycle_ = {};
  double propose_seconds = 0.0;
  {
    Stopwatch watch(cycle_.seconds);
    for (Sequence* s : sequences) {
      s->emitted.clear();
      s->top_logprobs.clear();
      s->cut_drafts.clear();
      s->error = nullptr;
    }
    if (draft_length_ != nullptr) draft_length_->begin_cycle(static_cast<int>(sequences.size()));
    try {
      read_lost_tokens(sequences);
      {
        Stopwatch proposing(propose_seconds);
        propose(sequences);
      }
      score(sequences);
      Stopwatch sampling(cycle_.sampling_seconds);
      int first_row = 0;
      for (Sequence* s : sequences) {
        const int rows = s->num_drafted() + 1;
        verify(*s, first_row);
        first_row += rows;
      }
    } catch (...) {
      for (Sequence* s : sequences) restore(*s);
      throw;
    }
    for (Sequence* s : sequences) restore(*s);
  }
  std::size_t tokens = 0;
  for (Sequence* s : sequences) {
    s->stats += cycle_;
    tokens += s->emitted.size();
  }
  if (draft_length_ == nullptr) return;
  draft_length_->end_cycle(target_.pass_size(), static_cast<int>(tokens), cycle_.seconds, propose_seconds);
}

void Decoder::truncate(Sequence& s, int num_committed) {
  auto last = s.emitted.rbegin();
  for (; s.num_committed > num_committed; --s.num_committed) {
    if (last == s.emitted.rend()) continue;  // an earlier cycle emitted it
    --s.stats.tokens;
    count_accepted(s.stats, last++->origin, -1);
  }
  restore(s);
}

void Decoder::remember(const Sequence& s, int num_prompt) {
  if (proposer_ != nullptr) proposer_->remember(s.tokens.data() + num_prompt, s.num_committed - num_prompt);
}

void Decoder::copy_prefix(int from, int to, int length) {
  target_.copy(from, to);
  if (proposer_ != nullptr) proposer_->copy(from, to);
  keep_prefix(to, length);
}

int Decoder::keep_prefix(int slot, int length) {
  target_.truncate(slot, length);
  if (proposer_ != nullptr) proposer_->truncate(slot, length);
  return target_.length(slot);
}

// Reads committed tokens that the target's cache lost: all of them after a failed pass, those since the checkpoint
// after recurrent layers were rolled back. A few are read along with the drafts.
void Decoder::read_lost_tokens(const std::vector<Sequence*>& sequences) {
  const int room = (target_.batch_size() - target_.row_capacity()) / static_cast<int>(sequences.size());
  for (const Sequence* s : sequences) {
    const int lost = s->num_committed - 1 - target_.length(s->slot);
    const bool lost_picture = picture_from(s->pictures, target_.length(s->slot)) != nullptr;
    if (lost_picture || lost > std::min(room, max_tokens_read_along)) cache_tokens(target_, *s, s->num_committed - 1);
  }
}

// The largest K that exceeds neither model's context nor the number of tokens requested. A cycle yields up to K + 1
// tokens and writes the target's cells num_committed - 1 .. num_committed - 1 + K.
int Decoder::room_for_drafts(const Sequence& s, int num_sequences) const {
  if (proposer_ == nullptr) return 0;
  const int room = std::min({s.remaining - 1, target_.context_length() - s.num_committed,
                             proposer_->room(s.num_committed), target_.row_capacity() / num_sequences - 1});
  return std::max(0, std::min(s.chooses_draft_length() ? max_draft_tokens : s.num_draft_tokens, room));
}

void Decoder::propose(const std::vector<Sequence*>& sequences) {
  requests_.clear();
  for (Sequence* s : sequences) {
    s->plan.clear();
    if (!target_.reads_trees()) s->max_tree_size = 0;
    const int num_tokens = room_for_drafts(*s, static_cast<int>(sequences.size()));
    if (num_tokens > 0) requests_.push_back({s, num_tokens, s->chooses_draft_length() ? draft_length_ : nullptr});
  }
  if (!requests_.empty()) proposer_->propose(requests_, cycle_);
}

Decoder::TreePass& Decoder::tree_pass(const Sequence& s) {
  if (trees_.size() <= idx(s.slot)) trees_.resize(idx(s.slot) + 1);
  return trees_[idx(s.slot)];
}

void Decoder::arrange(const Sequence& s, int num_cached, TreePass& pass) {
  std::vector<int> depths, order;
  for (int node = 0; node < s.tree.size(); ++node) {
    const int parent = s.tree.parents[idx(node)];
    depths.push_back(parent < 0 ? 0 : depths[idx(parent)] + 1);
    order.push_back(node);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return depths[idx(a)] < depths[idx(b)]; });
  pass.tokens.assign(s.tokens.begin() + num_cached, s.tokens.begin() + s.num_committed);
  pass.parents.clear();
  pass.places.assign(order.size(), -1);
  for (const int node : order) {
    const int parent = s.tree.parents[idx(node)];
    pass.places[idx(node)] = static_cast<int>(pass.parents.size());
    pass.parents.push_back(parent < 0 ? -1 : pass.places[idx(parent)]);
    pass.tokens.push_back(s.tree.tokens[idx(node)]);
  }
}

void Decoder::score(const std::vector<Sequence*>& sequences) {
  Stopwatch watch(cycle_.target_seconds);
  inputs_.clear();
  for (const Sequence* s : sequences) tree_pass(*s);  // inputs refer to them, so none moves from here on
  for (const Sequence* s : sequences) {
    const int tokens = s->num_drafted() + 1;
    const int cached = target_.length(s->slot), unread = s->num_committed - 1 - cached;
    if (s->num_drafted() > 0) target_.checkpoint(s->slot, unread + tokens);
    if (s->tree.size() > 0) {
      TreePass& pass = tree_pass(*s);
      arrange(*s, cached, pass);
      inputs_.push_back({s->slot, pass.tokens.data(), unread + tokens, tokens, &pass.parents});
    } else {
      inputs_.push_back({s->slot, s->tokens.data() + cached, unread + tokens, tokens});
    }
  }
  target_.decode(inputs_);
  ++cycle_.target_calls;
}

void Decoder::verify(Sequence& s, int first_row) {
  if (s.error) return;
  sampling::Verdict decided{};
  std::vector<int> path;
  try {
    decided = reading_logits_of("target", [&] {
      try {
        if (s.tree.size() == 0) return verdict(s, first_row);
        const sampling::TreeVerdict found = tree_verdict(s, first_row);
        path = path_to(s.tree, found.last);
        return sampling::Verdict{static_cast<int>(path.size()), found.next_token};
      } catch (const sampling::NoTokenLeft&) {
        if (!s.constraint && !s.transforms.bans()) throw;
        if (s.constraint && !s.constraint->failure().empty()) throw Error(s.constraint->failure());
        const std::string what = !s.transforms.bans() ? "the constraint leaves"
                                 : !s.constraint      ? "the banned tokens leave"
                                                      : "the constraint and the banned tokens leave";
        throw DeadEnd(what + " no token to continue the output");
      }
    });
  } catch (...) {
    s.error = std::current_exception();
    return;
  }
  const int num_drafted = s.num_drafted();
  s.stats.drafted += num_drafted;
  const auto first = s.origins.begin(), last = first + num_drafted;
  s.stats.drafted_copies += std::count_if(first, last, is_copy);
  s.stats.drafted_predicted += std::count(first, last, DraftOrigin::prediction);
  if (s.reports_cut_drafts) s.cut_drafts = branches_off(s, path, decided.num_accepted);
  rows_.assign(1, first_row);
  if (s.tree.size() > 0) {
    keep_path(s, path);
    for (const int node : path) rows_.push_back(first_row + 1 + tree_pass(s).places[idx(node)]);
  } else {
    for (int place = 1; place <= decided.num_accepted; ++place) rows_.push_back(first_row + place);
  }
  if (draft_length_ != nullptr && s.chooses_draft_length())
    draft_length_->observe(s, decided.num_accepted, decided.next_token);
  commit(s, decided.num_accepted, decided.next_token);
}

// The drafts of the path become the drafts of a chain.
void Decoder::keep_path(Sequence& s, const std::vector<int>& path) {
  if (proposer_ != nullptr) proposer_->keep_path(s, path);
  std::vector<int> places;
  for (const int node : path) places.push_back(tree_pass(s).places[idx(node)]);
  target_.keep_path(s.slot, places);
  for (std::size_t i = 0; i < path.size(); ++i) {
    s.origins[i] = s.origins[idx(path[i])];
    s.tokens.push_back(s.tree.tokens[idx(path[i])]);
  }
  s.tree.clear();
}

sampling::TreeVerdict Decoder::tree_verdict(Sequence& s, int first_row) {
  const int size = target_.vocabulary_size();
  const std::vector<int>& places = tree_pass(s).places;
  // Calls f(logits, length of the text in s.branch, mask) for the row after a node.
  const auto with_row = [&](int node, auto f) {
    const int length = s.write_branch(node);
    const bool has_ended = node >= 0 && target_.is_end_of_generation(s.tree.tokens[idx(node)]);
    const float* const logits = target_.logits(first_row + (node < 0 ? 0 : 1 + places[idx(node)]));
    return f(logits, length, has_ended ? nullptr : s.mask(s.branch, length));
  };
  const auto target_row = [&](int node) -> const sampling::Distribution& {
    with_row(node, [&](const float* logits, int length, const sampling::TokenMask* mask) {
      s.transforms.apply(logits, size, s.branch.data(), length, row_, mask, s.xtc_draw(length));
    });
    return row_;
  };
  if (s.transforms.params().greedy()) {
    return follow_tree(s.tree, [&](int node) {
      return with_row(node, [&](const float* logits, int length, const sampling::TokenMask* mask) {
        return s.transforms.argmax(logits, size, s.branch.data(), length, mask);
      });
    });
  }
  if (s.verification == Verification::invariant) {
    return follow_tree(s.tree, [&](int node) {
      const sampling::Distribution& row = target_row(node);
      return sampling::gumbel_max(row, *s.uniforms, static_cast<std::int64_t>(s.branch.size()));
    });
  }
  const auto draft_row = [&](int node) -> const sampling::Distribution& { return s.draft_probs[idx(node + 1)]; };
  const auto decide = [&](int node, double probability) {
    return s.uniforms->uniform(s.num_committed, node, sampling::Purpose::accept) < probability;
  };
  const auto pick = [&](const sampling::Distribution& from) {
    return sampling::draw(from, s.uniforms->uniform(s.num_committed, 0, sampling::Purpose::next));
  };
  return verify_tree(s.tree, draft_row, target_row, decide, pick, s.verification == Verification::block, tree_scratch_);
}

sampling::Verdict Decoder::verdict(Sequence& s, int first_row) {
  const Token* drafted = s.tokens.data() + s.num_committed;
  const int num_drafted = s.num_drafted(), size = target_.vocabulary_size();
  const auto logits = [&](int place) { return target_.logits(first_row + place); };
  // The penalties at place i count the drafts before place i.
  const auto history = [&](int place) { return s.num_committed + place; };
  // Whatever follows the end of generation is dropped, so it needs no mask.
  const auto mask = [&](int place) {
    return place > 0 && target_.is_end_of_generation(drafted[place - 1]) ? nullptr : s.mask(history(place));
  };
  if (s.transforms.params().greedy()) {
    return accept_while_equal(drafted, num_drafted, [&](int place) {
      return s.transforms.argmax(logits(place), size, s.tokens.data(), history(place), mask(place));
    });
  }

  const auto target_row = [&](int place) -> const sampling::Distribution& {
    s.transforms.apply(logits(place), size, s.tokens.data(), history(place), row_, mask(place),
                       s.xtc_draw(history(place)));
    return row_;
  };
  const auto uniform = [&](int place) {
    return place < num_drafted ? s.uniforms->uniform(s.num_committed, place, sampling::Purpose::accept)
                               : s.uniforms->uniform(s.num_committed, 0, sampling::Purpose::next);
  };
  switch (s.verification) {
    case Verification::invariant:
      return accept_while_equal(drafted, num_drafted, [&](int place) {
        return sampling::gumbel_max(target_row(place), *s.uniforms, history(place));
      });
    case Verification::block:
      return sampling::verify_block(drafted, num_drafted, s.draft_probs.data(), target_row, uniform, residual_,
                                    longest_residual_);
    default:
      return sampling::verify_token(drafted, num_drafted, s.draft_probs.data(), target_row, uniform, residual_);
  }
}

// Drops everything after an end-of-generation token, which may be an accepted draft.
void Decoder::commit(Sequence& s, int num_accepted, Token next_token) {
  s.drop_drafts_after(num_accepted);
  s.tokens.push_back(next_token);
  for (int place = 0; place <= num_accepted && s.finish == Finish::none; ++place) {
    const Token token = s.tokens[idx(s.num_committed)];
    const DraftOrigin origin = place < num_accepted ? s.origins[idx(place)] : DraftOrigin::none;
    s.emitted.push_back({token, origin, std::numeric_limits<double>::quiet_NaN()});
    if (s.has_logprobs) {
      const sampling::LogSoftmax logprobs =
          sampling::log_softmax(target_.logits(rows_[idx(place)]), target_.vocabulary_size());
      s.emitted.back().logprob = logprobs(token);
      sampling::append_most_likely(logprobs, s.num_top_logprobs, s.top_logprobs);
    }
    count_accepted(s.stats, origin, 1);
    ++s.num_committed;
    --s.remaining;
    if (target_.is_end_of_generation(token) || s.is_stop_token(token)) s.finish = Finish::end_of_generation;
  }
  s.stats.tokens += static_cast<std::int64_t>(s.emitted.size());
  if (s.finish == Finish::none && s.remaining <= 0) s.finish = Finish::max_tokens;
  if (s.finish == Finish::none && s.num_committed > target_.context_length()) s.finish = Finish::context;
}

// Establishes the invariant between cycles from any state.
void Decoder::restore(Sequence& s) {
  s.drop_drafts_after(0);
  keep_prefix(s.slot, std::max(0, s.num_committed - 1));
}

}  // namespace specdec
