// One text in the making: everything the loop knows of it, whatever else runs in the same batch.
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

constexpr int max_draft_tokens = 63;   // a pass of 64 tokens: beyond that no draft is worth its time
constexpr int auto_draft_tokens = -1;  // as many as pay, decided place by place (draft_length.h)

enum class Finish { none, end_of_generation, max_tokens, context };

// What the adaptive draft length makes of a cycle.
struct DraftPlan {
  struct Confidence {
    double row, draft;
  };
  double survival = 1.0;           // expected probability that every draft so far is accepted
  std::vector<Confidence> places;  // by draft
  Token withheld = -1;             // a one-hot proposal for the next place that did not seem worth it; -1: none
  double withheld_confidence = 0.0;

  void clear() {
    survival = 1.0;
    places.clear();
    withheld = -1;
  }
};

// How drafts are judged. All three give the target's law.
// token: one by one. block: together, which accepts more. invariant: a draft is accepted if it is what the target chooses
// with the noise of its position, so that a seed fixes the text whatever is drafted.
enum class Verification { token, block, invariant };

// What a draft model proposes: a token drawn from its distribution, or its most likely one, recorded as certain.
enum class Drafting { sampled, argmax };

// A token of the output, in order.
struct Emission {
  Token token;
  bool from_draft;  // proposed by the draft and accepted, or made by the target
  double logprob;   // natural log of the target's raw probability, before any transform
};

struct Sequence {
  Sequence(int slot_, sampling::SamplingParams params, std::unique_ptr<const sampling::UniformSource> uniforms_)
      : slot(slot_), transforms(std::move(params)), uniforms(std::move(uniforms_)) {}

  int slot;                   // its place in the caches of both models
  std::vector<Token> tokens;  // committed tokens, followed by the drafts of the cycle that is running
  int num_committed = 0;
  int num_draft_tokens = 0;  // K; 0 decodes without a draft; or auto_draft_tokens
  int remaining = 0;         // tokens still to be produced at most
  Finish finish = Finish::none;
  Verification verification = Verification::block;
  Drafting drafting = Drafting::sampled;

  sampling::Transforms transforms;
  std::unique_ptr<const sampling::UniformSource> uniforms;

  // Of the running or last cycle.
  std::vector<sampling::Distribution> draft_probs;  // [num_drafted] what each draft was sampled from; unused when greedy
  DraftPlan plan;                                   // auto_draft_tokens only
  std::vector<Emission> emitted;
  std::exception_ptr error;  // ModelError: a model's logits for this text mean nothing, and the cycle made no token of it

  Stats stats;  // times are those of the passes and cycles that it took part in, however many others did

  bool chooses_draft_length() const { return num_draft_tokens == auto_draft_tokens; }
  int num_drafted() const { return static_cast<int>(tokens.size()) - num_committed; }
  // The distribution slot of place i; allocated once, reused in every cycle.
  sampling::Distribution& draft_row(int place) {
    if (draft_probs.size() <= static_cast<std::size_t>(place)) draft_probs.resize(static_cast<std::size_t>(place) + 1);
    return draft_probs[static_cast<std::size_t>(place)];
  }
  // Keeps the first num_kept drafts of the cycle.
  void drop_drafts_after(int num_kept) { tokens.resize(static_cast<std::size_t>(num_committed + num_kept)); }
};

}  // namespace specdec
