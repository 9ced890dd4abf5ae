// The tokens and state of one sequence in the speculative loop.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/index.h"
#include "sampling/constraint.h"
#include "sampling/distribution.h"
#include "sampling/log_softmax.h"
#include "sampling/transforms.h"
#include "sampling/uniforms.h"
#include "sampling/verify_tree.h"
#include "speculative/prediction.h"
#include "speculative/score.h"
#include "speculative/stats.h"
#include "speculative/text.h"

namespace specdec {

constexpr int max_draft_tokens = 63;   // for passes of 64 tokens; longer drafts do not pay
constexpr int auto_draft_tokens = -1;  // DraftLength decides place by place

enum class Finish { none, end_of_generation, max_tokens, context };

// Where a draft comes from: a draft model, a copy of text (n-gram lookup, suffix decoding, a prediction of the output),
// or a constraint that allows no other token.
enum class DraftOrigin : std::uint8_t { none, model, ngram, suffix, constraint, prediction };
constexpr bool is_copy(DraftOrigin origin) {
  return origin == DraftOrigin::ngram || origin == DraftOrigin::suffix || origin == DraftOrigin::prediction;
}

// The adaptive draft length's state of one cycle.
struct DraftPlan {
  struct Confidence {
    double row, draft;
  };
  // A copy that was not submitted. Comparing it with the token that ends up there still teaches its acceptance.
  struct Withheld {
    int place;
    Token token;
    DraftOrigin origin;
    double confidence;
  };
  double survival = 1.0;           // expected probability that every draft so far is accepted
  std::vector<Confidence> places;  // by draft
  std::vector<Withheld> withheld;

  void clear() {
    survival = 1.0;
    places.clear();
    withheld.clear();
  }
};

// How drafts are verified. All three modes give the target's distribution. token: one by one. block: together, which
// accepts more. invariant: a draft is accepted if it equals the target's Gumbel-max choice with the noise of its
// position, so that the output of a seed does not depend on the drafts.
enum class Verification { token, block, invariant };

// What a draft model proposes: a token sampled from its distribution, or its most likely token with a one-hot
// distribution.
enum class Drafting { sampled, argmax };

// A token of the output.
struct Emission {
  Token token;
  DraftOrigin origin;  // of an accepted draft; none: sampled from the target
  double logprob;      // natural log of the target's probability, before any transform; NaN without has_logprobs
};

// Its text: committed tokens, followed by the drafts of the current cycle.
struct Sequence : Text {
  Sequence(int slot_, sampling::SamplingParams params, std::unique_ptr<const sampling::UniformSource> uniforms_,
           sampling::TokenRules rules = {})
      : slot(slot_), transforms(std::move(params), std::move(rules)), uniforms(std::move(uniforms_)) {}

  int slot;  // its place in the caches of both models
  int num_committed = 0;
  int num_draft_tokens = 0;   // K; 0: without a draft; or auto_draft_tokens
  int max_tree_size = 0;      // drafts of a tree; 0: drafts are chains
  bool tree_adapts = false;   // to what a draft costs and gains; else trees have max_tree_size drafts
  int remaining = 0;          // tokens that may still be produced
  bool has_logprobs = false;  // of the output's tokens; on a fast GPU they take a few percent of the time
  int num_top_logprobs = 0;   // most likely tokens to report with each token of the output
  bool reports_cut_drafts = false;
  Finish finish = Finish::none;
  Verification verification = Verification::block;
  Drafting drafting = Drafting::sampled;

  std::shared_ptr<Score> prompt_score;  // null: not wanted; complete once the prompt is read
  sampling::Transforms transforms;
  std::unique_ptr<const sampling::UniformSource> uniforms;
  std::unique_ptr<sampling::ConstraintState> constraint;  // of the output; null: none
  std::vector<Token> stop_tokens;                         // end the output like the end of generation
  std::unique_ptr<Prediction> prediction;                 // the likely output; null: unknown

  // The current or last cycle.
  sampling::DraftTree tree;                      // the drafts if they branch; they are not in `tokens` then
  std::vector<Token> branch;                     // the committed tokens, then those of a path of the tree
  std::optional<sampling::Transforms> of_nodes;  // of the draft's rows, whose tokens become nodes of trees
  // The distributions sampled from; unused when greedy. [num_drafted], of a tree [1 + node]: those of its children.
  std::vector<sampling::Distribution> draft_probs;
  std::array<DraftOrigin, max_draft_tokens> origins{};  // [num_drafted]
  DraftPlan plan;                                       // auto_draft_tokens only
  std::vector<Emission> emitted;
  std::vector<sampling::TokenLogprob> top_logprobs;  // [emitted.size()][num_top_logprobs, at most the vocabulary]
  std::vector<std::vector<Token>> cut_drafts;        // if reported: drafts that were not accepted, by branch
  std::exception_ptr error;  // ModelError: invalid logits for this sequence; the cycle gave it no token

  Stats stats;  // times are those of whole passes and cycles, not divided by the number of sequences that took part

  bool is_stop_token(Token token) const {
    return std::find(stop_tokens.begin(), stop_tokens.end(), token) != stop_tokens.end();
  }
  bool chooses_draft_length() const { return num_draft_tokens == auto_draft_tokens; }
  int num_drafted() const { return tree.size() + static_cast<int>(tokens.size()) - num_committed; }
  // The number of tokens of `branch` that the row after a node of the tree follows, after they are written there; -1:
  // of the committed ones.
  int write_branch(int node) {
    int depth = 0;
    for (int i = node; i >= 0; i = tree.parents[idx(i)]) ++depth;
    branch.resize(idx(num_committed + depth));
    for (int i = node, at = num_committed + depth; i >= 0; i = tree.parents[idx(i)])
      branch[idx(--at)] = tree.tokens[idx(i)];
    return num_committed + depth;
  }
  void begin_tree() {
    tree.clear();
    branch = tokens;
  }
  void add_node(int parent, Token token, DraftOrigin origin, bool is_drawn) {
    origins[idx(tree.size())] = origin;
    tree.add(parent, token, is_drawn);
  }
  // The distribution of place i; allocated once and reused in every cycle.
  sampling::Distribution& draft_row(int place) {
    if (draft_probs.size() <= idx(place)) draft_probs.resize(idx(place) + 1);
    return draft_probs[idx(place)];
  }
  // The tokens that may follow the first `length` tokens, drafts included; null: any.
  const sampling::TokenMask* mask(int length) { return mask(tokens, length); }
  const sampling::TokenMask* mask(const std::vector<Token>& text, int length) {
    return constraint ? &constraint->mask(text.data(), length) : nullptr;
  }
  // The random number of XTC for the token after the first `length` tokens; draft and target use the same one.
  double xtc_draw(int length) const {
    return transforms.params().uses_xtc() ? uniforms->uniform(length, 0, sampling::Purpose::xtc) : 1.0;
  }
  // Appends a draft. Its distribution, if it has one, is what draft_row(num_drafted()) holds before the call.
  void add_draft(Token token, DraftOrigin origin) {
    origins[idx(num_drafted())] = origin;
    tokens.push_back(token);
  }
  // Keeps the first num_kept drafts of the cycle, and no tree.
  void drop_drafts_after(int num_kept) {
    tree.clear();
    tokens.resize(idx(num_committed + num_kept));
  }
};

}  // namespace specdec
