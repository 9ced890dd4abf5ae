// Runs of toy drafters that read the target's rows (heads, block drafters): what holds of each of them.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "speculative/combined_proposer.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "toy_model.h"

namespace toy {

using specdec::Sequence;
using Tokens = std::vector<Token>;

constexpr int vocabulary = 4;
inline const Tokens prompt = {3, 1, 2, 1, 0, 2};

inline std::unique_ptr<Sequence> sequence_of(Tokens tokens, int num_draft_tokens, int max_tokens, int slot = 0,
                                             double temperature = 0.9) {
  specdec::sampling::SamplingParams params;
  params.temperature = temperature;
  auto s = std::make_unique<Sequence>(slot, params, std::make_unique<specdec::sampling::PhiloxUniforms>(5, slot));
  s->num_committed = static_cast<int>(tokens.size());
  s->tokens = std::move(tokens);
  s->num_draft_tokens = num_draft_tokens;
  s->remaining = max_tokens;
  return s;
}

// The target without drafts.
inline Tokens greedy_text(int max_tokens, const Tokens& start = prompt) {
  Model target(vocabulary, 1);
  specdec::Decoder decoder(target, nullptr);
  const auto s = sequence_of(start, 0, max_tokens, 0, 0.0);
  decoder.prefill(*s);
  while (s->finish == specdec::Finish::none) decoder.cycle({s.get()});
  return s->tokens;
}

// A drafter of a test has `target` (Model), `layers` (what drafts, with before_pass), `drafter` and check(sequence).

// A pass of the target or of the layers fails, at every place of a run; the text stays the target's. make(): a drafter
// of one slot whose batches are small.
template <class Make>
void check_that_any_pass_may_fail(const Make& make) {
  const Tokens expected = greedy_text(24);
  for (const bool goes_back : {true, false}) {  // false: a target that cannot
    for (const bool of_layers : {false, true}) {
      for (int failing = 1; failing < 60; ++failing) {
        auto toy = make();
        toy->target.goes_back = goes_back;
        int passes = 0;
        const auto fail = [&](int) {
          if (++passes == failing) throw specdec::Cancelled("now");
        };
        if (of_layers) toy->layers.before_pass = fail;
        else toy->target.before_pass = fail;
        specdec::CombinedProposer proposer({toy->drafter, vocabulary}, nullptr, specdec::CopiedTexts::all, 0.3);
        specdec::Decoder decoder(toy->drafter.target(), &proposer);
        const auto s = sequence_of(prompt, 3, 24, 0, 0.0);
        bool is_read = false;
        while (s->finish == specdec::Finish::none) {
          try {
            if (!is_read) is_read = decoder.prefill(*s, 3);
            else decoder.cycle({s.get()});
          } catch (const specdec::Cancelled&) {
          }
          toy->check(*s);
        }
        CHECK(s->tokens == expected);
      }
    }
  }
}

// A request that shares a prefix of any length with what is cached reads on from there, in this slot or another.
// make(): a drafter of two slots. most_lost: tokens of a prefix that are read again. is_read(drafter, sequence): what
// holds besides check() once its prompt is read.
template <class Make, class IsRead>
void check_that_prefixes_are_reused(const Make& make, int most_lost, const IsRead& is_read) {
  const Tokens all = greedy_text(20);
  const int length = static_cast<int>(all.size());
  for (const bool copied : {false, true}) {
    for (int shared = 0; shared < length; ++shared) {
      auto toy = make();
      specdec::DraftModelProposer proposer(toy->drafter, vocabulary);
      specdec::Decoder decoder(toy->drafter.target(), &proposer);
      const auto s = sequence_of(prompt, 3, 20, 0, 0.0);
      decoder.prefill(*s);
      while (s->finish == specdec::Finish::none) decoder.cycle({s.get()});
      Tokens other(all.begin(), all.begin() + shared);
      for (const Token token : {0, 3, 3, 1}) other.push_back(token);
      const int slot = copied ? 1 : 0;
      if (copied) decoder.copy_prefix(0, 1, shared);
      const int cached = decoder.keep_prefix(slot, shared);
      CHECK(cached == decoder.keep_prefix(slot, shared));  // harmless when repeated
      CHECK(cached <= shared && cached >= std::min(shared, length - 1) - most_lost);
      const auto t = sequence_of(other, 3, 12, slot, 0.0);
      decoder.prefill(*t);
      is_read(*toy, *t);
      toy->check(*t);
      while (t->finish == specdec::Finish::none) {
        decoder.cycle({t.get()});
        toy->check(*t);
      }
      CHECK(t->tokens == greedy_text(12, other));
    }
  }
}

}  // namespace toy
