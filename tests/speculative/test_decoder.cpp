// The loop's bookkeeping: lengths, ends, caches, errors, several sequences in one batch.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "base/error.h"
#include "check.h"
#include "draft_rule.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_proposer.h"
#include "toy_constraint.h"
#include "toy_model.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

sampling::SamplingParams params_of(double temperature) {
  sampling::SamplingParams params;
  params.temperature = temperature;
  return params;
}

std::unique_ptr<Sequence> sequence_of(Tokens prompt, int num_draft_tokens, int max_tokens, double temperature = 0.8,
                                      int slot = 0, std::uint64_t seed = 5) {
  auto s =
      std::make_unique<Sequence>(slot, params_of(temperature), std::make_unique<sampling::PhiloxUniforms>(seed, 0));
  s->num_committed = static_cast<int>(prompt.size());
  s->tokens = std::move(prompt);
  s->num_draft_tokens = num_draft_tokens;
  s->remaining = max_tokens;
  return s;
}

// Cycles to the end; the tokens emitted.
Tokens run(Decoder& decoder, Sequence& s) {
  Tokens output;
  decoder.prefill(s);
  while (s.finish == Finish::none) {
    decoder.cycle({&s});
    if (s.error) std::rethrow_exception(s.error);
    CHECK(!s.emitted.empty());
    for (const Emission& e : s.emitted) output.push_back(e.token);
  }
  return output;
}

const Tokens prompt = {3, 1, 4, 1, 5};

}  // namespace

TEST(exactly_max_tokens) {
  for (const int k : {0, 1, 3, 7, 63}) {
    for (int max_tokens = 1; max_tokens <= 20; ++max_tokens) {
      toy::Model target(8, 1), draft(8, 2);
      DraftModelProposer proposer(draft, 8);
      Decoder decoder(target, &proposer);
      auto s = sequence_of(prompt, k, max_tokens);
      CHECK(static_cast<int>(run(decoder, *s).size()) == max_tokens);
      CHECK(s->finish == Finish::max_tokens);
      CHECK(s->stats.tokens == max_tokens);
      CHECK(s->stats.accepted <= s->stats.drafted);
      CHECK((draft.num_passes == 0) == (k == 0));  // nobody waits for a draft that is not asked
    }
  }
}

TEST(greedy_with_any_draft_is_plain_greedy) {
  toy::Model alone(8, 1);
  Decoder plain(alone, nullptr);
  const Tokens expected = run(plain, *sequence_of(prompt, 0, 40, 0.0));
  for (const int k : {1, 3, 7}) {
    for (std::uint64_t seed : {1u, 2u, 3u}) {  // seed 1: the draft is the target, everything is accepted
      toy::Model target(8, 1), draft(8, seed);
      DraftModelProposer proposer(draft, 8);
      Decoder decoder(target, &proposer);
      auto s = sequence_of(prompt, k, 40, 0.0);
      CHECK(run(decoder, *s) == expected);
      if (seed == 1) CHECK(s->stats.accepted == s->stats.drafted);
    }
  }
}

// From the target's row at each place, whatever was drafted there.
TEST(the_most_likely_tokens) {
  constexpr int vocabulary = 8;
  for (const auto verification : {Verification::token, Verification::block, Verification::invariant}) {
    for (const int k : {0, 1, 3, 7}) {
      for (const int count : {0, 1, 5, vocabulary, vocabulary + 1}) {
        toy::Model target(vocabulary, 1), draft(vocabulary, 2);
        DraftModelProposer proposer(draft, vocabulary);
        Decoder decoder(target, &proposer);
        auto s = sequence_of(prompt, k, 40, 1.2);
        s->verification = verification;
        s->has_logprobs = true;
        s->num_top_logprobs = count;
        decoder.prefill(*s);
        Tokens text = prompt;
        while (s->finish == Finish::none) {
          decoder.cycle({s.get()});
          std::vector<sampling::TokenLogprob> expected;
          for (const Emission& e : s->emitted) {
            const std::vector<float> logits = target.logits_after(text);
            const sampling::LogSoftmax row = sampling::log_softmax(logits.data(), vocabulary);
            CHECK(e.logprob == row(e.token));
            sampling::append_most_likely(row, count, expected);
            text.push_back(e.token);
          }
          CHECK(s->top_logprobs.size() == expected.size());
          for (std::size_t i = 0; i < expected.size(); ++i) {
            CHECK(s->top_logprobs[i].token == expected[i].token && s->top_logprobs[i].logprob == expected[i].logprob);
          }
        }
        if (k > 0) CHECK(s->stats.accepted > 0);
      }
    }
  }
}

TEST(log_probabilities_can_be_left_out) {
  const auto text_of = [](bool has_logprobs) {
    toy::Model target(8, 1), draft(8, 2);
    DraftModelProposer proposer(draft, 8);
    Decoder decoder(target, &proposer);
    auto s = sequence_of(prompt, 3, 40, 1.2);
    s->has_logprobs = has_logprobs;
    decoder.prefill(*s);
    while (s->finish == Finish::none) {
      decoder.cycle({s.get()});
      for (const Emission& e : s->emitted) CHECK(std::isnan(e.logprob) != has_logprobs);
      CHECK(s->top_logprobs.empty());
    }
    return s->tokens;
  };
  CHECK(text_of(false) == text_of(true));
}

// Drafter-invariant verification: Philox noise as in the engine.

namespace {

// K differs from cycle to cycle, and drafts are withdrawn because of their value, which is allowed in this mode.
class Capricious final : public Proposer {
 public:
  explicit Capricious(Proposer& real) : real_(real) {}
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override {
    std::vector<ProposalRequest> fewer = requests;
    for (ProposalRequest& request : fewer)
      request.num_tokens = 1 + request.sequence->num_committed * 7 % request.num_tokens;
    real_.propose(fewer, stats);
    for (ProposalRequest& request : fewer) {
      Tokens& tokens = request.sequence->tokens;
      if (request.sequence->num_drafted() > 0 && tokens.back() % 3 == 0) tokens.pop_back();
    }
  }
  int room(int n) const override { return real_.room(n); }
  void prefill(const Sequence& s, int length) override { real_.prefill(s, length); }
  void truncate(int slot, int length) override { real_.truncate(slot, length); }
  void copy(int from, int to) override { real_.copy(from, to); }

 private:
  Proposer& real_;
};

enum class Proposals { model, perfect_model, ngram, capricious };

Tokens sampled_text(Verification verification, Drafting drafting, Proposals proposals, int k, std::uint64_t seed) {
  toy::Model target(8, 1), draft(8, proposals == Proposals::perfect_model ? 1 : 2);
  target.end_of_generation = draft.end_of_generation = 6;
  DraftModelProposer model(draft, 8);
  NgramProposer ngram;
  Capricious capricious(model);
  Proposer* const proposer = proposals == Proposals::ngram        ? static_cast<Proposer*>(&ngram)
                             : proposals == Proposals::capricious ? &capricious
                                                                  : static_cast<Proposer*>(&model);
  Decoder decoder(target, k == 0 ? nullptr : proposer);
  auto s = sequence_of(prompt, k, 30, 1.2, 0, seed);
  s->verification = verification;
  s->drafting = drafting;
  return run(decoder, *s);
}

}  // namespace

TEST(a_seed_gives_the_same_text_for_any_draft) {
  int different_seeds = 0, different_by_token_verification = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto text = [&](Drafting drafting, Proposals proposals, int k) {
      return sampled_text(Verification::invariant, drafting, proposals, k, seed);
    };
    const Tokens expected = text(Drafting::sampled, Proposals::model, 0);
    for (const int k : {1, 2, 3, 5, 7, 20}) {
      for (const Proposals proposals :
           {Proposals::model, Proposals::perfect_model, Proposals::ngram, Proposals::capricious}) {
        for (const Drafting drafting : {Drafting::sampled, Drafting::argmax})
          CHECK(text(drafting, proposals, k) == expected);
      }
    }
    different_seeds +=
        expected != sampled_text(Verification::invariant, Drafting::sampled, Proposals::model, 0, seed + 1) ? 1 : 0;
    different_by_token_verification +=
        expected != sampled_text(Verification::token, Drafting::sampled, Proposals::model, 3, seed) ? 1 : 0;
  }
  CHECK(different_seeds > 45 && different_by_token_verification > 45);
}

TEST(a_perfect_draft_is_always_accepted_in_every_mode) {
  for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
    toy::Model target(8, 1), draft(8, 1);
    DraftModelProposer proposer(draft, 8);
    Decoder decoder(target, &proposer);
    auto s = sequence_of(prompt, 4, 50);
    s->verification = verification;
    run(decoder, *s);
    CHECK(s->stats.target_calls == 10);
  }
}

TEST(greedy_does_not_depend_on_the_mode) {
  toy::Model alone(8, 1);
  Decoder plain(alone, nullptr);
  const Tokens expected = run(plain, *sequence_of(prompt, 0, 40, 0.0));
  for (const Verification verification : {Verification::block, Verification::invariant}) {
    for (const Drafting drafting : {Drafting::sampled, Drafting::argmax}) {
      toy::Model target(8, 1), draft(8, 2);
      DraftModelProposer proposer(draft, 8);
      Decoder decoder(target, &proposer);
      auto s = sequence_of(prompt, 3, 40, 0.0);
      s->verification = verification;
      s->drafting = drafting;
      CHECK(run(decoder, *s) == expected);
    }
  }
}

TEST(a_perfect_draft_is_always_accepted) {
  toy::Model target(8, 1), draft(8, 1);
  DraftModelProposer proposer(draft, 8);
  Decoder decoder(target, &proposer);
  auto s = sequence_of(prompt, 4, 50);
  run(decoder, *s);
  CHECK(s->stats.target_calls == 10);
  CHECK(s->stats.acceptance_rate() == 1.0);
  CHECK(s->stats.tokens_per_target_call() == 5.0);
}

TEST(drafts_are_chains_for_a_target_that_reads_no_trees) {
  toy::Model target(8, 1), draft(8, 1);
  target.branches = false;
  DraftModelProposer proposer(draft, 8);
  Decoder decoder(target, &proposer);
  auto s = sequence_of(prompt, 4, 50);
  s->max_tree_size = 4;
  run(decoder, *s);
  CHECK(s->stats.target_calls == 10);
}

TEST(contexts_are_never_exceeded) {  // toy::Model throws past its context
  for (int target_context = 5; target_context <= 14; ++target_context) {
    for (int draft_context = 3; draft_context <= 14; ++draft_context) {
      toy::Model target(8, 1, target_context), draft(8, 2, draft_context);
      DraftModelProposer proposer(draft, 8);
      Decoder decoder(target, &proposer);
      auto s = sequence_of(prompt, 4, 100);
      const Tokens output = run(decoder, *s);
      CHECK(s->finish == Finish::context);
      // Every cell is used, and one more token comes out of the last.
      CHECK(static_cast<int>(output.size()) == target_context + 1 - static_cast<int>(prompt.size()));
    }
  }
}

TEST(nothing_follows_the_end_of_generation) {
  int ended_inside_a_draft = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    toy::Model target(6, 1), draft(6, seed % 2 ? 1 : 2);
    target.end_of_generation = draft.end_of_generation = 2;
    DraftModelProposer proposer(draft, 6);
    Decoder decoder(target, &proposer);
    auto s = sequence_of(prompt, 5, 50, 1.0, 0, seed);
    const Tokens output = run(decoder, *s);
    for (std::size_t i = 0; i + 1 < output.size(); ++i) CHECK(output[i] != 2);
    if (s->finish != Finish::end_of_generation) continue;
    CHECK(output.back() == 2);
    if (s->emitted.back().origin != DraftOrigin::none) ++ended_inside_a_draft;
    CHECK(target.length(0) <= static_cast<int>(s->tokens.size()) - 1);
  }
  CHECK(ended_inside_a_draft > 10);
}

TEST(a_prompt_longer_than_the_batch_is_read_in_pieces) {
  Tokens long_prompt;
  for (int i = 0; i < 45; ++i) long_prompt.push_back(i % 7);
  toy::Model target(8, 1, 64, 8), draft(8, 2, 64, 8), whole(8, 1);
  DraftModelProposer proposer(draft, 8);
  Decoder decoder(target, &proposer), plain(whole, nullptr);
  CHECK(run(decoder, *sequence_of(long_prompt, 7, 10, 0.0)) == run(plain, *sequence_of(long_prompt, 0, 10, 0.0)));
  CHECK(target.largest_pass <= 8 && draft.largest_pass <= 8);
}

TEST(a_failed_pass_loses_nothing) {
  for (int failing = 1; failing <= 25; ++failing) {
    for (const bool in_target : {true, false}) {
      toy::Model target(8, 1), draft(8, 2), reference(8, 1);
      (in_target ? target : draft).before_pass = [failing](int pass) {
        if (pass == failing) throw Cancelled("stopped here");
      };
      DraftModelProposer proposer(draft, 8);
      Decoder decoder(target, &proposer), plain(reference, nullptr);
      auto s = sequence_of(prompt, 3, 12, 0.0);
      Tokens output;
      int failures = 0;
      while (s->finish == Finish::none) {
        try {
          decoder.prefill(*s);
          decoder.cycle({s.get()});
          for (const Emission& e : s->emitted) output.push_back(e.token);
        } catch (const Cancelled&) {
          ++failures;
        }
        CHECK(s->num_drafted() == 0);
        CHECK(std::equal(target.cache(0).begin(), target.cache(0).end(), s->tokens.begin()));
        CHECK(std::equal(draft.cache(0).begin(), draft.cache(0).end(), s->tokens.begin()));
        CHECK(target.length(0) < s->num_committed && draft.length(0) < s->num_committed);
      }
      CHECK(failures <= 1);
      CHECK(output == run(plain, *sequence_of(prompt, 0, 12, 0.0)));
    }
  }
}

// A cancelled pass empties a recurrent model's cache: it must read the sequence again.
TEST(a_failed_pass_of_a_recurrent_model_loses_nothing) {
  for (int failing = 1; failing <= 14; ++failing) {
    toy::Model target(8, 1, 64, 4), reference(8, 1);
    target.goes_back = false;
    target.before_pass = [&target, failing](int pass) {
      if (pass != failing) return;
      target.truncate(0, target.length(0) - 1);
      throw Cancelled("stopped here");
    };
    Decoder decoder(target, nullptr), plain(reference, nullptr);
    auto s = sequence_of(prompt, 0, 12, 0.0);
    Tokens output;
    bool is_read = false;
    while (s->finish == Finish::none) {
      try {
        if (!is_read) is_read = decoder.prefill(*s);
        decoder.cycle({s.get()});
        for (const Emission& e : s->emitted) output.push_back(e.token);
      } catch (const Cancelled&) {
      }
    }
    CHECK(output == run(plain, *sequence_of(prompt, 0, 12, 0.0)));
  }
}

// However few tokens were lost with it: it cannot be read along with drafts.
TEST(a_lost_picture_is_read_again) {
  Picture picture;
  picture.place = 1;
  picture.num_rows = picture.num_positions = 3;
  picture.key = "a picture";
  const auto output_of = [&](int failing) {
    toy::Model target(8, 1);
    target.picture_key = picture.key;
    target.most_rows = 8;
    target.before_pass = [&](int pass) {
      if (pass != failing) return;
      target.truncate(0, 0);
      throw Cancelled("stopped here");
    };
    Decoder decoder(target, nullptr);
    auto s = sequence_of({0, in_picture, in_picture, in_picture, 1, 0}, 0, 6, 0.0);
    s->pictures = {picture};
    for (bool is_read = false; s->finish == Finish::none;) {
      try {
        if (!is_read) is_read = decoder.prefill(*s);
        decoder.cycle({s.get()});
      } catch (const Cancelled&) {
      }
    }
    return s->tokens;
  };
  for (int failing = 1; failing <= 8; ++failing) CHECK(output_of(failing) == output_of(0));
}

TEST(invalid_logits_are_an_error_of_that_model) {
  const auto broken = [](float value) {
    return [value](const Tokens& context) { return std::vector<float>(8, context.size() == 7 ? value : 0.5f); };
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 0.8}) {
    for (const float value : {nan, infinity, -infinity}) {
      for (const bool in_target : {true, false}) {
        toy::Model target(8, 1), draft(8, 2);
        (in_target ? target : draft).table = broken(value);
        DraftModelProposer proposer(draft, 8);
        Decoder decoder(target, &proposer);
        auto s = sequence_of(prompt, 3, 12, temperature);
        if (in_target) CHECK_THROWS(run(decoder, *s), ModelError, "the target model failed");
        else CHECK_THROWS(run(decoder, *s), ModelError, "the draft model failed");
        CHECK(s->num_drafted() == 0 && target.length(0) < s->num_committed);
      }
    }
  }
}

TEST(truncating_shortens_text_and_caches) {
  toy::Model target(8, 1), draft(8, 2);
  DraftModelProposer proposer(draft, 8);
  Decoder decoder(target, &proposer);
  auto s = sequence_of(prompt, 3, 12);
  run(decoder, *s);
  decoder.truncate(*s, 8);
  CHECK(s->tokens.size() == 8 && target.length(0) == 7 && draft.length(0) <= 7);
  decoder.truncate(*s, 100);  // an absolute length: nothing to do
  CHECK(s->tokens.size() == 8 && target.length(0) == 7);
}

TEST(truncated_tokens_do_not_count) {
  toy::Model target(8, 1), draft(8, 1);  // the same model: all drafts are accepted
  DraftModelProposer proposer(draft, 8);
  Decoder decoder(target, &proposer);
  auto s = sequence_of(prompt, 3, 12, 0.0);
  decoder.prefill(*s);
  decoder.cycle({s.get()});
  CHECK(s->stats.tokens == 4 && s->stats.accepted == 3 && s->stats.drafted == 3);
  decoder.truncate(*s, s->num_committed - 2);
  CHECK(s->stats.tokens == 2 && s->stats.accepted == 2 && s->stats.drafted == 3);
  decoder.truncate(*s, s->num_committed);
  CHECK(s->stats.tokens == 2 && s->stats.accepted == 2);
}

// Several sequences share one target pass per cycle; each has the same output as alone.
TEST(sequences_in_one_batch_are_as_if_alone) {
  const int lengths[] = {17, 4, 9, 1};
  std::vector<Tokens> together(4), alone(4);
  toy::Model target(8, 1, 64, 64, 4), draft(8, 2, 64, 64, 4);
  DraftModelProposer proposer(draft, 8);
  Decoder decoder(target, &proposer);
  std::vector<std::unique_ptr<Sequence>> all;
  std::vector<Sequence*> running;
  for (int i = 0; i < 4; ++i) {
    const int k = 2 * i;
    const Tokens text = {i, 3, 1};
    all.push_back(sequence_of(text, k, lengths[i], 0.9, i, 40 + static_cast<std::uint64_t>(i)));
    decoder.prefill(*all.back());
    running.push_back(all.back().get());

    toy::Model one_target(8, 1), one_draft(8, 2);
    DraftModelProposer one_proposer(one_draft, 8);
    Decoder one(one_target, &one_proposer);
    alone[static_cast<std::size_t>(i)] =
        run(one, *sequence_of(text, k, lengths[i], 0.9, 0, 40 + static_cast<std::uint64_t>(i)));
  }
  while (!running.empty()) {
    const int passes = target.num_passes;
    decoder.cycle(running);
    CHECK(target.num_passes == passes + 1);
    std::vector<Sequence*> still;
    for (Sequence* s : running) {
      for (const Emission& e : s->emitted) together[static_cast<std::size_t>(s->slot)].push_back(e.token);
      if (s->finish == Finish::none) still.push_back(s);
    }
    running = still;
  }
  CHECK(together == alone);
}

// Constraints.

namespace {

void constrain(Sequence& s, const toy::Allowed& allowed, bool fails = false) {
  auto constraint = std::make_unique<toy::Constraint>(8, allowed);
  constraint->fails = fails;
  s.constraint = std::make_unique<sampling::ConstraintState>(std::move(constraint), s.num_committed);
}

// Tokens 0, 1 and 2 in any order, six of them, then 7, which ends the output. Behind 2 comes 0.
std::uint32_t six_then_end(const Tokens& output) {
  if (output.size() == 6) return 1u << 7;
  if (output.size() > 6) return 0;
  return !output.empty() && output.back() == 2 ? 0b001u : 0b111u;
}

struct Constrained {
  toy::Model target{8, 1}, draft{8, 2};
  DraftModelProposer model{draft, 8};
  NgramProposer ngram;
  SuffixProposer suffix;
  std::unique_ptr<Sequence> sequence;
  Tokens run(Proposer* proposer, int k, double temperature, Verification verification,
             const toy::Allowed& allowed = six_then_end) {
    target.end_of_generation = draft.end_of_generation = 7;
    Decoder decoder(target, proposer);
    sequence = sequence_of({0, 1, 2, 0, 1}, k, 40, temperature);
    sequence->verification = verification;
    constrain(*sequence, allowed);
    return ::run(decoder, *sequence);
  }
};

}  // namespace

TEST(output_obeys_its_constraint_and_ends_where_it_may_end) {
  for (const double temperature : {0.0, 0.8}) {
    const Tokens plain = Constrained().run(nullptr, 0, temperature, Verification::invariant);
    for (const Verification verification : {Verification::token, Verification::block, Verification::invariant}) {
      for (const int k : {1, 3, 7}) {
        for (const int source : {0, 1, 2}) {
          Constrained c;
          Proposer* const proposers[] = {&c.model, &c.ngram, &c.suffix};
          const Tokens output = c.run(proposers[source], k, temperature, verification);
          CHECK(output.size() == 7 && output.back() == 7 && c.sequence->finish == Finish::end_of_generation);
          for (std::size_t i = 0; i < output.size(); ++i) {
            CHECK((six_then_end(Tokens(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(i))) >> output[i] &
                   1u) != 0);
          }
          if (temperature == 0.0 || verification == Verification::invariant) CHECK(output == plain);
        }
      }
    }
  }
}

TEST(a_token_that_alone_is_allowed_is_drafted_without_a_pass) {
  const Tokens wanted = {3, 4, 5, 6, 3, 7};
  const auto one_text = [&](const Tokens& output) {
    return output.size() < wanted.size() ? 1u << wanted[output.size()] : 0u;
  };
  for (const double temperature : {0.0, 0.8}) {
    Constrained c;
    CHECK(c.run(&c.model, 7, temperature, Verification::block, one_text) == wanted);
    CHECK(c.draft.num_passes == 1 && c.target.num_passes == 2);  // prefill, and the target's pass over all drafts
    CHECK(c.sequence->stats.accepted == 6 && c.sequence->stats.accepted_copies == 0);
    for (int place = 0; place < 6; ++place)
      CHECK(c.sequence->origins[static_cast<std::size_t>(place)] == DraftOrigin::constraint);
  }
}

TEST(copies_that_the_constraint_forbids_are_not_proposed) {
  const auto not_two = [](const Tokens& output) { return output.size() < 4 ? 0b10000011u : 0b10000000u; };
  Constrained c;
  c.run(&c.ngram, 4, 0.8, Verification::block, not_two);  // the prompt's 0 1 was followed by 2
  for (const Token token : c.sequence->tokens) CHECK(token != 6);
  CHECK(c.sequence->stats.drafted_copies == 0 || c.sequence->tokens[5] != 2);
  Constrained free;
  free.run(&free.ngram, 4, 0.8, Verification::block,
           [](const Tokens& output) { return output.size() < 4 ? 0b111u : 0b10000000u; });
  CHECK(free.sequence->stats.drafted_copies > 0);
}

TEST(a_constraint_without_a_way_on_fails_its_sequence_only) {
  toy::Model target(8, 1, 64, 64, 2), draft(8, 2, 64, 64, 2);
  DraftModelProposer proposer(draft, 8);
  for (const bool fails : {false, true}) {
    for (const double temperature : {0.0, 0.8}) {
      Decoder decoder(target, &proposer);
      auto stuck = sequence_of(prompt, 3, 20, temperature, 0), other = sequence_of(prompt, 3, 20, temperature, 1);
      constrain(*stuck, [](const Tokens& output) { return output.size() < 2 ? 0b110u : 0u; }, fails);
      for (Sequence* s : {stuck.get(), other.get()}) {
        decoder.keep_prefix(s->slot, 0);
        decoder.prefill(*s);
      }
      while (!stuck->error) decoder.cycle({stuck.get(), other.get()});
      CHECK(stuck->num_committed <= static_cast<int>(prompt.size()) + (fails ? 0 : 2));
      CHECK(!other->error && !other->emitted.empty());
      try {
        std::rethrow_exception(stuck->error);
      } catch (const Error& error) {
        CHECK(std::string(error.what()) == (fails ? "the constraint failed: out of order"
                                                  : "the constraint leaves no token to continue the output"));
      }
    }
  }
}

// Bans by logit_bias leave less than the constraint allows.
TEST(a_constraint_and_bans_that_leave_nothing_are_an_error) {
  toy::Model target(8, 1);
  Decoder decoder(target, nullptr);
  sampling::SamplingParams params = params_of(0.8);
  params.logit_bias = {{1, -INFINITY}};
  Sequence s(0, params, std::make_unique<sampling::PhiloxUniforms>(5, 0));
  s.tokens = prompt;
  s.num_committed = static_cast<int>(prompt.size());
  s.remaining = 5;
  constrain(s, [](const Tokens&) { return 0b10u; });
  decoder.prefill(s);
  decoder.cycle({&s});
  CHECK(s.error != nullptr);
}

// Trees are always worth growing.
class Trees : public toy::DraftRule {
 public:
  bool worth_a_row(const Sequence&, int) override { return true; }
  bool worth_a_draft(const Sequence&, double) override { return true; }
  bool worth_a_tree(const Sequence&, int, bool) override { return true; }
};

class SmallTrees final : public Trees {
 public:
  int largest_tree() const override { return 3; }
};

// A draft model whose first tree is about to grow.
struct BeforeTree {
  BeforeTree(int longest, int max_tokens, int size, bool adapts) : s(sequence_of(prompt, longest, max_tokens)) {
    s->max_tree_size = size;
    s->tree_adapts = adapts;
    decoder.prefill(*s);
  }
  toy::Model target{8, 1}, draft{8, 2};
  DraftModelProposer proposer{draft, 8};
  Decoder decoder{target, &proposer};
  std::unique_ptr<Sequence> s;
};

// The first tree, as the parents of its nodes.
std::vector<int> first_tree(toy::DraftRule& rule, int size, bool adapts, Stats& stats) {
  BeforeTree before(12, 20, size, adapts);
  before.proposer.propose({{before.s.get(), 12, &rule}}, stats);
  return before.s->tree.parents;
}

TEST(a_rule_limits_the_size_of_trees) {
  SmallTrees rule;
  Stats stats;
  for (const bool adapts : {true, false}) CHECK(first_tree(rule, 12, adapts, stats).size() == (adapts ? 3 : 12));
}

class PassCounter final : public Trees {
 public:
  void record_draft_pass(int, int, double) override { ++num_passes; }
  int num_passes = 0;
};

TEST(a_rule_hears_of_every_pass_for_a_tree) {
  PassCounter rule;
  Stats stats;
  first_tree(rule, 6, true, stats);
  CHECK(rule.num_passes == stats.draft_calls && rule.num_passes > 1);
}

TEST(no_node_has_more_than_16_children) {
  toy::Model target(24, 1), draft(24, 2);
  draft.table = [](const Tokens&) { return std::vector<float>(24, 0.0f); };
  DraftModelProposer proposer(draft, 24);
  Decoder decoder(target, &proposer);
  const auto s = sequence_of(prompt, 20, 30, 0.0);
  s->max_tree_size = 20;
  decoder.prefill(*s);
  Stats stats;
  proposer.propose({{s.get(), 20}}, stats);
  CHECK(std::count(s->tree.parents.begin(), s->tree.parents.end(), -1) == 16);
}

TEST(a_draft_catches_up_with_what_it_has_not_read) {
  toy::Model draft(8, 2, 5);  // of a text that is longer than its context it reads nothing
  DraftModelProposer proposer(draft, 8);
  const auto s = sequence_of(prompt, 4, 20), longer = sequence_of({3, 1, 4, 1, 5, 2}, 4, 20);
  proposer.catch_up(*longer, 5);
  CHECK(draft.cache(0).empty());
  proposer.catch_up(*s, 4);
  CHECK(draft.cache(0) == (Tokens{3, 1, 4, 1}));
}

// Takes only the likeliest of the next drafts. typical: what rows that are not known yet are expected to offer. pass:
// the worth of the draft's passes.
class LikeliestFirst final : public Trees {
 public:
  LikeliestFirst(double typical, double pass) : typical_(typical), pass_(pass) {}
  int largest_tree() const override { return 6; }
  DraftPrice price_of_drafts(const GrowingTree& tree, std::vector<double>& next) const override {
    const bool pays = tree.num_drafted < most_drafts && !next.empty();
    return {pays ? *std::max_element(next.begin(), next.end()) : 2.0, 0.0};
  }
  double typical_acceptance() const override { return typical_; }
  double worth_of_draft_pass(const GrowingTree&, int) const override { return pass_; }
  int most_drafts = 6;

 private:
  double typical_, pass_;
};

TEST(places_of_a_tree_wait_for_rows_that_may_offer_more) {
  const auto tree_of = [](LikeliestFirst rule, int& passes) {
    Stats stats;
    std::vector<int> parents = first_tree(rule, 6, true, stats);
    passes = static_cast<int>(stats.draft_calls);
    return parents;
  };
  int passes = 0;
  // Each place is filled when the rows of all that is likelier are known.
  CHECK(tree_of({1.0, 0.0}, passes) == (std::vector<int>{-1, 0, 1, -1, 2, 0}));
  CHECK(passes == 5);
  // If rows cost too much, what is known gets the places that are left.
  CHECK(tree_of({1.0, 9.0}, passes) == (std::vector<int>{-1, -1}));
  CHECK(passes == 1);
  // If rows are expected to offer nothing, places do not wait for them.
  CHECK(tree_of({0.0, 0.0}, passes) == (std::vector<int>{-1, -1, -1, 0, 0, 1}));
  CHECK(passes == 2);
  // No row is read for drafts that cannot pay.
  LikeliestFirst two(1.0, 0.0);
  two.most_drafts = 2;
  CHECK(tree_of(two, passes).size() == 2);
  CHECK(passes == 2);
}

TEST(a_tree_of_a_fixed_size_depends_on_no_cost) {
  Stats cheap, dear;
  LikeliestFirst free_passes(0.5, 0.0), dear_passes(0.5, 9.0);
  const std::vector<int> tree = first_tree(free_passes, 12, false, cheap);
  CHECK(tree.size() == 12);
  CHECK(first_tree(dear_passes, 12, false, dear) == tree);
  CHECK(dear.draft_calls == cheap.draft_calls);
}

// Copies that are all accepted with the same probability; a chain would take `count` of them.
class Copied final : public Trees {
 public:
  Copied(int count, double probability) : count_(count), probability_(probability) {}
  int best_number_of_copies(const Sequence&, const std::vector<Copy>&, int) const override { return count_; }
  double probability_of(const Copy&) const override { return probability_; }
  double typical_acceptance() const override { return 0.5; }
  double worth_of_draft_pass(const GrowingTree&, int) const override { return draft_pass; }
  // A node takes a chance of 0.1; beyond 12 nodes, the next ones have to gain two tokens together.
  DraftPrice price_of_drafts(const GrowingTree& tree, std::vector<double>& next) const override {
    const bool is_step = tree.num_drafted == 12, pays = std::any_of(next.begin(), next.end(), is_likely);
    return {pays && (!is_step || std::accumulate(next.begin(), next.end(), 0.0) > 2.0) ? 0.1 : 2.0, 0.0};
  }
  double draft_pass = 0.0;

 private:
  static bool is_likely(double chance) { return chance >= 0.1; }
  int count_;
  double probability_;
};

// Whether a tree is grown with these copies, and how many of them are in it.
std::optional<int> copies_in_tree(Copied rule, int num_copies, bool adapts = true) {
  BeforeTree before(20, 30, 20, adapts);
  const std::vector<float> row = before.draft.logits_after(prompt);
  const auto agreed = static_cast<Token>(std::max_element(row.begin(), row.end()) - row.begin());
  std::vector<ProposalRequest> running{{before.s.get(), 20, &rule}};
  Stats stats;
  before.proposer.grow_trees(running, stats, [&](const ProposalRequest&, std::vector<Copy>& copies) {
    for (int i = 0; i < num_copies; ++i) copies.push_back({agreed, 0.9});
  });
  if (!running.empty()) return std::nullopt;
  const auto first = before.s->origins.begin();
  return static_cast<int>(std::count_if(first, first + before.s->tree.size(), is_copy));
}

TEST(a_tree_has_more_than_a_chain_of_copies_or_is_not_grown) {
  CHECK(!copies_in_tree({20, 1.0}, 20));   // certain copies in all places
  CHECK(!copies_in_tree({20, 0.99}, 20));  // another token would gain less than its place costs
  CHECK(copies_in_tree({8, 0.9}, 8));      // drafts after the last copy
  CHECK(copies_in_tree({8, 0.6}, 20));     // other tokens in place of copies
  CHECK(copies_in_tree({0, 0.6}, 20));     // a chain would not copy at all
  Copied slow(8, 0.9);
  slow.draft_pass = 1.5;  // tokens
  CHECK(!copies_in_tree(slow, 8));
  CHECK(copies_in_tree({20, 1.0}, 20, false) == 20);  // trees of a fixed size are always grown
}

TEST(copies_in_a_tree_pay_for_a_step_together) {
  CHECK(copies_in_tree({18, 0.97}, 18) == 18);
  CHECK(copies_in_tree({13, 0.97}, 13) == 12);  // one copy alone does not
}

class Listener final : public toy::DraftRule {
 public:
  bool worth_a_row(const Sequence&, int) override { return true; }
  bool worth_a_draft(const Sequence&, double row_confidence) override {
    rows.push_back(row_confidence);
    return true;
  }
  void drafted(Sequence&, DraftPlan::Confidence confidence) override { drafts.push_back(confidence); }
  std::vector<double> rows;
  std::vector<DraftPlan::Confidence> drafts;
};

TEST(a_rule_hears_the_probability_of_each_likeliest_draft) {
  for (const double temperature : {0.0, 0.8}) {
    toy::Model target(4, 1), draft(4, 2);
    DraftModelProposer proposer(draft, 4);
    Decoder decoder(target, &proposer);
    const auto s = sequence_of({3, 1, 2}, 4, 20, temperature);
    s->drafting = Drafting::argmax;
    decoder.prefill(*s);
    Listener rule;
    Stats stats;
    proposer.propose({{s.get(), 4, &rule}}, stats);
    CHECK(rule.rows.size() == 4 && rule.drafts.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::vector<float> logits = draft.logits_after(Tokens(s->tokens.begin(), s->tokens.begin() + 3 + i));
      double sum = 0.0;
      for (const float logit : logits) sum += std::exp(logit - logits[static_cast<std::size_t>(s->tokens[3 + i])]);
      CHECK_NEAR(rule.rows[i], 1.0 / sum, 1e-6);
      CHECK(rule.drafts[i].row == rule.rows[i] && rule.drafts[i].draft == rule.rows[i]);
    }
  }
}

TEST_MAIN()
