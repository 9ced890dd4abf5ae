// Drafting heads: which hidden row every token is read with, whatever happens to the sequences.

#include <algorithm>
#include <memory>
#include <optional>

#include "check.h"
#include "speculative/drafting_head.h"
#include "toy_head.h"
#include "toy_runs.h"

namespace {

using namespace specdec;
using toy::greedy_text, toy::prompt, toy::sequence_of, toy::Tokens, toy::vocabulary;

bool fuses = false;  // of the heads that are made: every test runs with both

struct Head {
  explicit Head(int slots = 1, int context = 64, int batch = 64)
      : target(vocabulary, 1, context, batch, slots),
        layers(vocabulary, 2, context, batch, slots, fuses),
        drafter(target, layers, slots) {}
  toy::Model target;
  toy::HeadLayers layers;
  DraftingHead drafter;

  // What the head has read is a prefix of the committed tokens, all with the target's rows.
  void check(const Sequence& s) const {
    const toy::HeadLayers::Read& read = layers.cache(s.slot);
    CHECK(static_cast<int>(read.size()) <= s.num_committed);
    const Tokens committed(s.tokens.begin(), s.tokens.begin() + s.num_committed);
    const toy::HeadLayers::Read expected = layers.expected(committed, s.num_committed);
    CHECK(std::equal(read.begin(), read.end(), expected.begin()));
  }
};

}  // namespace

#define TEST_OF_HEADS(name)                      \
  static void name();                            \
  TEST(name##_with_the_targets_rows) { name(); } \
  TEST(name##_with_fused_rows) {                 \
    fuses = true;                                \
    name();                                      \
    fuses = false;                               \
  }                                              \
  static void name()

TEST_OF_HEADS(tokens_are_read_with_the_targets_rows_once_they_are_committed) {
  for (const int k : {1, 2, 5}) {
    for (const int chunk : {1, 2, 100}) {
      Head toy;
      DraftModelProposer proposer(toy.drafter, vocabulary);
      Decoder decoder(toy.drafter.target(), &proposer);
      const auto s = sequence_of(prompt, k, 40);
      while (!decoder.prefill(*s, chunk)) toy.check(*s);
      while (s->finish == Finish::none) {
        decoder.cycle({s.get()});
        CHECK(!s->error);
        toy.check(*s);
        CHECK(toy.target.cache(0) == Tokens(s->tokens.begin(), s->tokens.end() - 1));
      }
      CHECK(0 < s->stats.accepted && s->stats.accepted < s->stats.drafted);
    }
  }
}

// One pass for the row of the first draft, one for every further draft.
TEST_OF_HEADS(a_draft_is_one_pass) {
  Head toy;
  DraftModelProposer proposer(toy.drafter, vocabulary);
  Decoder decoder(toy.drafter.target(), &proposer);
  const auto s = sequence_of(prompt, 4, 30, 0, 0.0);
  decoder.prefill(*s);
  while (s->finish == Finish::none) {
    const int before = toy.layers.num_passes;
    const int drafts = std::min(4, s->remaining - 1);
    decoder.cycle({s.get()});
    CHECK(toy.layers.num_passes - before == drafts);
  }
  CHECK(s->tokens == greedy_text(30));
}

// After copies of text the head reads each of them with its own rows, one pass each.
TEST_OF_HEADS(copies_and_drafts_in_one_cycle) {
  for (const double temperature : {0.0, 0.9}) {
    Head toy(2);
    CombinedProposer proposer({toy.drafter, vocabulary}, nullptr, CopiedTexts::all, 0.2);
    Decoder decoder(toy.drafter.target(), &proposer);
    const auto first = sequence_of(prompt, 6, 50, 0, temperature),
               second = sequence_of({1, 2, 1, 2, 1}, 6, 50, 1, temperature);
    decoder.prefill(*first);
    decoder.prefill(*second);
    while (first->finish == Finish::none && second->finish == Finish::none) {
      decoder.cycle({first.get(), second.get()});
      toy.check(*first);
      toy.check(*second);
    }
    CHECK(first->stats.drafted_copies > 0 && first->stats.drafted_copies < first->stats.drafted);
    if (temperature == 0.0) {
      Tokens expected = greedy_text(50);
      expected.resize(first->tokens.size());
      CHECK(first->tokens == expected);
    }
  }
}

TEST_OF_HEADS(inputs_of_any_number_of_passes_together) {
  const Tokens text = {3, 1, 2, 1, 0};
  for (const int longer : {0, 1}) {
    Head toy(2);
    std::vector<PassInput> inputs;
    for (const int slot : {0, 1}) {
      toy.drafter.target().decode({{slot, text.data(), 2, 0}});
      inputs.push_back({slot, text.data(), slot == longer ? 5 : 3, 1});
    }
    toy.drafter.decode(inputs);
    for (const PassInput& input : inputs) {
      const Tokens read(text.begin(), text.begin() + input.num_tokens);
      const std::vector<float> row = toy.layers.logits_after(toy.layers.expected(read, 3));
      CHECK(std::equal(row.begin(), row.end(), toy.drafter.logits(input.slot)));
    }
  }
}

TEST_OF_HEADS(any_pass_may_fail) {
  toy::check_that_any_pass_may_fail([] { return std::make_unique<Head>(1, 64, 4); });
}

TEST_OF_HEADS(prefixes_are_reused) {
  toy::check_that_prefixes_are_reused([] { return std::make_unique<Head>(2); }, 1, [](const Head&, const Sequence&) {});
}

// Requests that are not drafted for leave the rows of few tokens; the head reads on later.
TEST_OF_HEADS(rows_do_not_pile_up) {
  Head toy(1, 600, 64);
  DraftModelProposer proposer(toy.drafter, vocabulary);
  Decoder decoder(toy.drafter.target(), &proposer);
  const auto s = sequence_of(prompt, 0, 500, 0, 0.0);
  decoder.prefill(*s);
  for (int i = 0; i < 400; ++i) decoder.cycle({s.get()});
  CHECK(s->num_committed - toy.layers.length(0) < 80);
  toy.check(*s);
  s->num_draft_tokens = 2;
  decoder.cycle({s.get()});
  CHECK(s->stats.drafted == 2);
  toy.check(*s);
}

// The target's cache comes from a file, with or without the head's.
TEST_OF_HEADS(restored_caches) {
  const Tokens all = greedy_text(30);
  for (const bool with_head : {false, true}) {
    Head toy;
    DraftModelProposer proposer(toy.drafter, vocabulary);
    Decoder decoder(toy.drafter.target(), &proposer);
    constexpr int count = 12;
    toy.target.decode({{0, all.data(), count, 0}});  // not through the head
    if (with_head) {
      toy::HeadLayers::Read read = toy.layers.expected(Tokens(all.begin(), all.begin() + count), count);
      std::vector<float> rows;
      for (const auto& [token, row] : read) {
        rows.push_back(row);
        if (fuses) rows.push_back(7.0f * row);
      }
      toy.layers.decode_with({{0, all.data(), count, 0}}, rows.data());
      const float row = toy::Model::hidden_after(Tokens(all.begin(), all.begin() + count));
      toy.drafter.restored(0, count, all[count - 1], &row);
      CHECK(*toy.drafter.next_row(0) == row);
    }
    const auto s = sequence_of(Tokens(all.begin(), all.begin() + count + 2), 3, 20, 0, 0.0);
    CHECK(decoder.keep_prefix(0, count) == count);
    decoder.prefill(*s);
    if (with_head) toy.check(*s);
    while (s->finish == Finish::none) decoder.cycle({s.get()});
    if (with_head) toy.check(*s);
    CHECK(s->tokens == Tokens(all.begin(), all.begin() + count + 2 + 20));
  }
}

TEST_MAIN()
