// Drafting heads: which hidden row every token is read with, whatever happens to the sequences.

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "check.h"
#include "speculative/combined_proposer.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/drafting_head.h"
#include "toy_head.h"
#include "toy_model.h"

namespace {

using namespace specdec;
using Text = std::vector<Token>;

constexpr int vocabulary = 4;
bool fuses = false;  // of the heads that are made: every test runs with both
const Text prompt = {3, 1, 2, 1, 0, 2};

struct Head {
  explicit Head(int slots = 1, int context = 64, int batch = 64)
      : target(vocabulary, 1, context, batch, slots),
        layers(vocabulary, 2, context, batch, slots, fuses),
        head(target, layers, slots) {}
  toy::Model target;
  toy::HeadLayers layers;
  DraftingHead head;

  // What the head has read is a prefix of the committed tokens, all with the target's rows.
  void check(const Sequence& s) const {
    const toy::HeadLayers::Read& read = layers.cache(s.slot);
    CHECK(static_cast<int>(read.size()) <= s.num_committed);
    const Text committed(s.tokens.begin(), s.tokens.begin() + s.num_committed);
    const toy::HeadLayers::Read expected = layers.expected(committed, s.num_committed);
    CHECK(std::equal(read.begin(), read.end(), expected.begin()));
  }
};

std::unique_ptr<Sequence> sequence_of(Text tokens, int num_draft_tokens, int max_tokens, int slot = 0,
                                      double temperature = 0.9) {
  sampling::SamplingParams params;
  params.temperature = temperature;
  auto s = std::make_unique<Sequence>(slot, params, std::make_unique<sampling::PhiloxUniforms>(5, slot));
  s->num_committed = static_cast<int>(tokens.size());
  s->tokens = std::move(tokens);
  s->num_draft_tokens = num_draft_tokens;
  s->remaining = max_tokens;
  return s;
}

Text greedy_text(int max_tokens, const Text& start = prompt) {
  toy::Model target(vocabulary, 1);
  Decoder decoder(target, nullptr);
  const auto s = sequence_of(start, 0, max_tokens, 0, 0.0);
  decoder.prefill(*s);
  while (s->finish == Finish::none) decoder.cycle({s.get()});
  return s->tokens;
}

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
      DraftModelProposer proposer(toy.head, vocabulary);
      Decoder decoder(toy.head.target(), &proposer);
      const auto s = sequence_of(prompt, k, 40);
      while (!decoder.prefill(*s, chunk)) toy.check(*s);
      while (s->finish == Finish::none) {
        decoder.cycle({s.get()});
        CHECK(!s->error);
        toy.check(*s);
        CHECK(toy.target.cache(0) == Text(s->tokens.begin(), s->tokens.end() - 1));
      }
      CHECK(0 < s->stats.accepted && s->stats.accepted < s->stats.drafted);
    }
  }
}

// One pass for the row of the first draft, one for every further draft.
TEST_OF_HEADS(a_draft_is_one_pass) {
  Head toy;
  DraftModelProposer proposer(toy.head, vocabulary);
  Decoder decoder(toy.head.target(), &proposer);
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
    CombinedProposer proposer({toy.head, vocabulary}, nullptr, CopiedTexts::all, 0.2);
    Decoder decoder(toy.head.target(), &proposer);
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
      Text expected = greedy_text(50);
      expected.resize(first->tokens.size());
      CHECK(first->tokens == expected);
    }
  }
}

// A pass of the target or of the head that fails, at every place of a run; and a target that cannot go back.
TEST_OF_HEADS(any_pass_may_fail) {
  const Text expected = greedy_text(24);
  for (const bool goes_back : {true, false}) {
    for (const bool of_head : {false, true}) {
      for (int failing = 1; failing < 60; ++failing) {
        Head toy(1, 64, 4);
        toy.target.goes_back = goes_back;
        int passes = 0;
        const auto fail = [&](int) {
          if (++passes == failing) throw Cancelled("now");
        };
        if (of_head) toy.layers.before_pass = fail;
        else toy.target.before_pass = fail;
        CombinedProposer proposer({toy.head, vocabulary}, nullptr, CopiedTexts::all, 0.3);
        Decoder decoder(toy.head.target(), &proposer);
        const auto s = sequence_of(prompt, 3, 24, 0, 0.0);
        bool is_read = false;
        while (s->finish == Finish::none) {
          try {
            if (!is_read) is_read = decoder.prefill(*s, 3);
            else decoder.cycle({s.get()});
          } catch (const Cancelled&) {
          }
          toy.check(*s);
        }
        CHECK(s->tokens == expected);
      }
    }
  }
}

// A request that shares a prefix of any length with what is cached reads on from there, in this slot or another.
TEST_OF_HEADS(prefixes_are_reused) {
  const Text all = greedy_text(20);
  for (const bool copied : {false, true}) {
    for (int shared = 0; shared < static_cast<int>(all.size()); ++shared) {
      Head toy(2);
      DraftModelProposer proposer(toy.head, vocabulary);
      Decoder decoder(toy.head.target(), &proposer);
      const auto s = sequence_of(prompt, 3, 20, 0, 0.0);
      decoder.prefill(*s);
      while (s->finish == Finish::none) decoder.cycle({s.get()});
      Text other(all.begin(), all.begin() + shared);
      for (const Token token : {0, 3, 3, 1}) other.push_back(token);
      const int slot = copied ? 1 : 0;
      if (copied) decoder.copy_prefix(0, 1, shared);
      const int cached = decoder.keep_prefix(slot, shared);
      CHECK(cached == decoder.keep_prefix(slot, shared));  // harmless when repeated
      CHECK(cached >= std::min(shared, static_cast<int>(all.size()) - 1) - 1);
      const auto t = sequence_of(other, 3, 12, slot, 0.0);
      decoder.prefill(*t);
      toy.check(*t);
      while (t->finish == Finish::none) {
        decoder.cycle({t.get()});
        toy.check(*t);
      }
      CHECK(t->tokens == greedy_text(12, other));
    }
  }
}

// Requests that are not drafted for leave the rows of few tokens; the head reads on later.
TEST_OF_HEADS(rows_do_not_pile_up) {
  Head toy(1, 600, 64);
  DraftModelProposer proposer(toy.head, vocabulary);
  Decoder decoder(toy.head.target(), &proposer);
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
  const Text all = greedy_text(30);
  for (const bool with_head : {false, true}) {
    Head toy;
    DraftModelProposer proposer(toy.head, vocabulary);
    Decoder decoder(toy.head.target(), &proposer);
    constexpr int count = 12;
    toy.target.decode({{0, all.data(), count, 0}});  // not through the head
    if (with_head) {
      toy::HeadLayers::Read read = toy.layers.expected(Text(all.begin(), all.begin() + count), count);
      std::vector<float> rows;
      for (const auto& [token, row] : read) {
        rows.push_back(row);
        if (fuses) rows.push_back(7.0f * row);
      }
      toy.layers.decode_with({{0, all.data(), count, 0}}, rows.data());
      const float row = toy::Model::hidden_after(Text(all.begin(), all.begin() + count));
      toy.head.restored(0, count, all[count - 1], &row);
      CHECK(*toy.head.next_row(0) == row);
    }
    const auto s = sequence_of(Text(all.begin(), all.begin() + count + 2), 3, 20, 0, 0.0);
    CHECK(decoder.keep_prefix(0, count) == count);
    decoder.prefill(*s);
    if (with_head) toy.check(*s);
    while (s->finish == Finish::none) decoder.cycle({s.get()});
    if (with_head) toy.check(*s);
    CHECK(s->tokens == Text(all.begin(), all.begin() + count + 2 + 20));
  }
}

TEST_MAIN()
