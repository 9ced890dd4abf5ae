// Block drafters: which rows of the target they have read, and in how many passes, whatever happens to the sequences.

#include <algorithm>
#include <memory>
#include <optional>

#include "check.h"
#include "speculative/block_drafter.h"
#include "toy_blocks.h"
#include "toy_runs.h"

namespace {

using namespace specdec;
using toy::greedy_text, toy::prompt, toy::sequence_of, toy::Tokens, toy::vocabulary;

constexpr int places = 5;

struct Drafter {
  explicit Drafter(int slots = 1, int batch = 64, bool biased = true, int layers_batch = 64)
      : target(vocabulary, 1, 64, batch, slots),
        layers(vocabulary, 2, places, biased, slots, std::min(batch, layers_batch)),
        drafter(target, layers, slots) {}
  toy::Model target;
  toy::BlockLayers layers;
  BlockDrafter drafter;

  // What was read is the target's rows of committed tokens, from the first one on that is known.
  void check(const Sequence& s) const {
    const toy::BlockLayers::Read& read = layers.cache(s.slot);
    CHECK(layers.length(s.slot) < s.num_committed);
    const Tokens committed(s.tokens.begin(), s.tokens.begin() + s.num_committed);
    for (std::size_t i = 0; i < read.rows.size(); ++i)
      CHECK(read.rows[i] == toy::BlockLayers::row_of(committed, read.first + static_cast<int>(i)));
  }
};

}  // namespace

// One pass for what was accepted, one for all drafts; no row is read twice.
TEST(a_block_is_one_pass) {
  for (const int k : {1, 3, 5, 9}) {
    for (const int chunk : {1, 2, 100}) {
      Drafter toy;
      DraftModelProposer proposer(toy.drafter, vocabulary);
      Decoder decoder(toy.drafter.target(), &proposer);
      const auto s = sequence_of(prompt, k, 40);
      while (!decoder.prefill(*s, chunk)) toy.check(*s);
      while (s->finish == Finish::none) {
        const int before = toy.layers.num_passes, fills = toy.layers.num_fills;
        const bool drafts = s->remaining > 1;
        decoder.cycle({s.get()});
        CHECK(!s->error);
        CHECK(toy.layers.num_fills - fills == (drafts ? 1 : 0));
        CHECK(toy.layers.num_passes - before <= 2);
        if (drafts) CHECK(toy.layers.pass_size() == std::min(k, places) + 1);
        if (drafts && k == 1)
          CHECK(toy.drafter.pass_size() >= toy.layers.pass_size());  // the block, and what was accepted
        toy.check(*s);
        CHECK(toy.target.cache(0) == Tokens(s->tokens.begin(), s->tokens.end() - 1));
      }
      CHECK(0 < s->stats.accepted && s->stats.accepted < s->stats.drafted);
      CHECK(s->stats.draft_calls == toy.layers.num_fills);
      CHECK(toy.layers.num_rows_read == toy.layers.length(0));
    }
  }
}

// The drafts of a block: each from its own row, with the bias of the one drawn before it.
TEST(drafts_are_those_of_the_rows) {
  for (const bool biased : {false, true}) {
    Drafter toy(1, 64, biased);
    DraftModelProposer proposer(toy.drafter, vocabulary);
    const auto s = sequence_of(prompt, places, 40, 0, 0.0);
    Decoder decoder(toy.drafter.target(), &proposer);
    decoder.prefill(*s);
    Stats stats;
    proposer.propose({{s.get(), places}}, stats);
    CHECK(s->num_drafted() == places);
    const auto committed = static_cast<int>(prompt.size());
    for (int i = 0; i < places; ++i) {
      const Tokens text(s->tokens.begin(), s->tokens.begin() + committed + i);
      const std::vector<float> row = toy.layers.logits_after(text, committed, places);
      CHECK(s->tokens[text.size()] == std::max_element(row.begin(), row.end()) - row.begin());
    }
  }
}

// With other blocks in the same passes and in between.
TEST(confidences_are_those_of_the_rows) {
  constexpr int slots = 3, batch = 12;
  for (const bool biased : {true, false}) {
    Drafter toy(slots, 64, biased, batch);
    std::vector<PassInput> inputs;
    const auto check = [&](int length) {
      toy.drafter.decode(inputs);
      for (int slot = 0; slot < slots; ++slot) {
        const Tokens text(prompt.begin(), prompt.begin() + length - slot);
        const std::optional<double> confidence = toy.drafter.confidence(slot);
        CHECK(confidence.has_value() == biased);
        if (biased) CHECK_NEAR(*confidence, toy.layers.confidence_after(text, 3 - slot, places), 1e-12);
      }
    };
    for (int slot = 0; slot < slots; ++slot) {
      const int committed = 3 - slot;
      if (committed > 1) toy.drafter.target().decode({{slot, prompt.data(), committed - 1, 0}});
      inputs.push_back({slot, prompt.data(), committed, 1});
    }
    check(3);
    for (int length = 4; length <= 6; ++length) {
      for (PassInput& input : inputs) input = {input.slot, prompt.data() + length - 1 - input.slot, 1, 1};
      check(length);
    }
  }
}

// Sequences with other numbers of drafts share the cycle, not the pass; each drafts as if it were alone. With a small
// batch a pass takes two blocks.
TEST(sequences_of_any_length_together) {
  for (const int batch : {12, 64}) {
    std::vector<Tokens> alone;
    for (const bool together : {false, true}) {
      Drafter toy(4, 64, true, batch);
      CombinedProposer proposer({toy.drafter, vocabulary}, nullptr, CopiedTexts::all, 0.2);
      Decoder decoder(toy.drafter.target(), &proposer);
      std::vector<std::unique_ptr<Sequence>> all;
      std::vector<Sequence*> running;
      for (const int k : {1, 5, 5, 7}) {
        const int slot = static_cast<int>(all.size());
        all.push_back(sequence_of({slot, 1, 2, 1, slot}, k, 20, slot));
        running.push_back(all.back().get());
        decoder.prefill(*all.back());
      }
      while (together && !running.empty()) {
        decoder.cycle(running);
        for (const Sequence* s : running) toy.check(*s);
        running.erase(
            std::remove_if(running.begin(), running.end(), [](const Sequence* s) { return s->finish != Finish::none; }),
            running.end());
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        while (all[i]->finish == Finish::none) decoder.cycle({all[i].get()});
        if (together) CHECK(all[i]->tokens == alone[i]);
        else alone.push_back(all[i]->tokens);
      }
    }
  }
}

TEST(a_block_outlives_the_passes_of_other_sequences) {
  Drafter toy(2);
  const Tokens text = {3, 1, 2, 1};
  for (const int slot : {0, 1}) {
    toy.drafter.target().decode({{slot, text.data(), 2, 0}});
    toy.drafter.decode({{slot, text.data(), 3, 1}});
  }
  toy.drafter.decode({{0, text.data() + 3, 1, 1}});
  const std::vector<float> row = toy.layers.logits_after(text, 3, places);
  CHECK(std::equal(row.begin(), row.end(), toy.drafter.logits(0)));
}

// Accepted drafts were in a block only: all their rows are read with the next two tokens, in as many passes as it
// takes.
TEST(more_rows_than_a_pass_takes) {
  constexpr int slots = 4, batch = 12;
  Drafter toy(slots, 64, true, batch);
  const Tokens text = {3, 1, 2, 1, 0, 2, 3, 0};
  std::vector<PassInput> inputs;
  for (int slot = 0; slot < slots; ++slot) {
    toy.drafter.target().decode({{slot, text.data(), 2, 0}});
    toy.drafter.decode({{slot, text.data(), 3, 1}});
    for (int i = 3; i < 6; ++i) toy.drafter.decode({{slot, text.data() + i, 1, 1}});
    toy.drafter.target().decode({{slot, text.data() + 2, 5, 5}});
    toy.drafter.truncate(slot, 6);
    CHECK(toy.layers.length(slot) == 2);
    inputs.push_back({slot, text.data() + 6, 2, 1});
  }
  toy.layers.num_rows_read = 0;
  toy.drafter.decode(inputs);
  CHECK(toy.layers.num_rows_read == slots * 5 && slots * 5 > batch);
  for (int slot = 0; slot < slots; ++slot) {
    CHECK(toy.layers.length(slot) == 7);
    const std::vector<float> row = toy.layers.logits_after(text, static_cast<int>(text.size()), places);
    CHECK(std::equal(row.begin(), row.end(), toy.drafter.logits(slot)));
  }
}

TEST(any_pass_may_fail) {
  toy::check_that_any_pass_may_fail([] { return std::make_unique<Drafter>(1, 8); });
}

TEST(prefixes_are_reused) {
  toy::check_that_prefixes_are_reused([] { return std::make_unique<Drafter>(2); }, 0,
                                      [](const Drafter& toy, const Sequence& s) {
                                        CHECK(toy.layers.cache(s.slot).first == 0);
                                        CHECK(toy.layers.length(s.slot) == s.num_committed - 1);
                                      });
}

// Requests that are not drafted for leave the rows of few tokens; they are read later.
TEST(rows_do_not_pile_up) {
  toy::Model target(vocabulary, 1, 600, 64);
  toy::BlockLayers layers(vocabulary, 2, places, true);
  BlockDrafter drafter(target, layers, 1);
  DraftModelProposer proposer(drafter, vocabulary);
  Decoder decoder(drafter.target(), &proposer);
  const auto s = sequence_of(prompt, 0, 500, 0, 0.0);
  decoder.prefill(*s);
  for (int i = 0; i < 400; ++i) decoder.cycle({s.get()});
  CHECK(s->num_committed - layers.length(0) < 80);
  s->num_draft_tokens = 2;
  decoder.cycle({s.get()});
  CHECK(s->stats.drafted == 2 && layers.cache(0).first == 0);
}

// The target's cache comes from a file, with or without the drafter's: then the rows behind it are all that it reads.
TEST(restored_caches) {
  const Tokens all = greedy_text(30);
  for (const bool with_drafter : {false, true}) {
    Drafter toy;
    DraftModelProposer proposer(toy.drafter, vocabulary);
    Decoder decoder(toy.drafter.target(), &proposer);
    constexpr int count = 12;
    toy.target.decode({{0, all.data(), count, 0}});  // not through the drafter
    if (with_drafter) {
      std::vector<float> rows;
      for (int i = 0; i < count; ++i) rows.push_back(toy::BlockLayers::row_of(all, i));
      toy.layers.read({{0, count}}, rows.data());
      toy.drafter.restored(0, count, all[count - 1], nullptr);
    }
    const auto s = sequence_of(Tokens(all.begin(), all.begin() + count + 2), 3, 20, 0, 0.0);
    CHECK(decoder.keep_prefix(0, count) == count);
    decoder.prefill(*s);
    while (s->finish == Finish::none) {
      decoder.cycle({s.get()});
      toy.check(*s);
    }
    CHECK(toy.layers.cache(0).first == (with_drafter ? 0 : count));
    CHECK(s->tokens == Tokens(all.begin(), all.begin() + count + 2 + 20));
    CHECK(decoder.keep_prefix(0, count - 3) == count - 3);  // before what was read
    const auto t = sequence_of(Tokens(all.begin(), all.begin() + count), 3, 20, 0, 0.0);
    decoder.prefill(*t);
    while (t->finish == Finish::none) {
      decoder.cycle({t.get()});
      toy.check(*t);
    }
    CHECK(t->tokens == Tokens(all.begin(), all.begin() + count + 20));
  }
}

TEST_MAIN()
