// The tokens and state of one sequence in the speculative loop.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/transforms.h"
#include "sampling/uniforms.h"
#include "speculative/stats.h"

namespace specdec {

constexpr int max_draft_tokens = 63;   // a pass of 64 tokens; longer drafts do not pay
constexpr int auto_draft_tokens = -1;  // DraftLength decides place by place

enum class Finish { none, end_of_generation, max_tokens, context };

// The adaptive draft length's state of one cycle.
struct DraftPlan {
  struct Confidence {
    double row, draft;
  };
  double survival = 1.0;           // expected probability that every draft so far is accepted
  std::vector<Confidence> places;  // by draft
  Token withheld = -1;             // a one-hot proposal for the next place that was not submitted; -1: none
  double withheld_confidence = 0.0;

  void clear() {
    survival = 1.0;
    places.clear();
    withheld = -1;
  }
};

// How drafts are judged. All three give the target's distribution.
// token: one by one. block: together, which accepts more. invariant: a draft is accepted if it equals the target's Gumbel-max
// choice with the noise of its position, so that the output of a seed does not depend on the drafts.
enum class Verification { token, block, invariant };

// What a draft model proposes: a token sampled from its distribution, or its most likely token, recorded as one-hot.
enum class Drafting { sampled, argmax };

// A token of the output, in order.
struct Emission {
  Token token;
  bool from_draft;  // true: a draft that was accepted; false: sampled from the target
  double logprob;   // natural log of the target's probability, before any transform
};

struct Sequence {
  Sequence(int slot_, sampling::SamplingParams params, std::unique_ptr<const sampling::UniformSource> uniforms_)
      : slot(slot_), transforms(std::move(params)), uniforms(std::move(uniforms_)) {}

  int slot;                   // its place in the caches of both models
  std::vector<Token> tokens;  // committed tokens, followed by the drafts of the current cycle
  int num_committed = 0;
  int num_draft_tokens = 0;  // K; 0: without a draft; or auto_draft_tokens
  int remaining = 0;         // tokens that may still be produced
  Finish finish = Finish::none;
  Verification verification = Verification::block;
  Drafting drafting = Drafting::sampled;

  sampling::Transforms transforms;
  std::unique_ptr<const sampling::UniformSource> uniforms;

  // The current or last cycle.
  std::vector<sampling::Distribution> draft_probs;  // [num_drafted] the distributions sampled from; unused when greedy
  DraftPlan plan;                                   // auto_draft_tokens only
  std::vector<Emission> emitted;
  std::exception_ptr error;  // ModelError: invalid logits for this sequence; the cycle gave it no token

  Stats stats;  // times are of whole passes and cycles that it took part in, not divided by the number of sequences

  bool chooses_draft_length() const { return num_draft_tokens == auto_draft_tokens; }
  int num_drafted() const { return static_cast<int>(tokens.size()) - num_committed; }
  // The distribution of place i; allocated once and reused in every cycle.
  sampling::Distribution& draft_row(int place) {
    if (draft_probs.size() <= static_cast<std::size_t>(place)) draft_probs.resize(static_cast<std::size_t>(place) + 1);
    return draft_probs[static_cast<std::size_t>(place)];
  }
  // Keeps the first num_kept drafts of the cycle.
  void drop_drafts_after(int num_kept) { tokens.resize(static_cast<std::size_t>(num_committed + num_kept)); }
};

}  // namespace specdec
