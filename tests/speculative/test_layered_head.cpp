// Heads of several layers: which layer drafts a place, and which rows it reads, whatever happens to the sequences.

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "check.h"
#include "speculative/combined_proposer.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/layered_head.h"
#include "toy_head.h"
#include "toy_model.h"
#include "toy_runs.h"

namespace {

using namespace specdec;
using toy::greedy_text;
using toy::prompt;
using toy::sequence_of;
using toy::Tokens;
using toy::vocabulary;

struct Head {
  explicit Head(int num_layers, int slots = 1, int context = 64, int batch = 64)
      : target(vocabulary, 1, context, batch, slots) {
    std::vector<HeadLayers*> pointers;
    for (int i = 0; i < num_layers; ++i) {
      layers.push_back(std::make_unique<toy::HeadLayers>(vocabulary, 2 + i, context, batch, slots));
      pointers.push_back(layers.back().get());
      all.push_back(layers.back().get());
    }
    head = std::make_unique<LayeredHead>(target, pointers, slots);
  }
  toy::Model target;
  std::vector<std::unique_ptr<toy::HeadLayers>> layers;
  std::vector<const toy::HeadLayers*> all;
  std::unique_ptr<LayeredHead> head;

  // What each layer has read is a prefix of the committed tokens, all with the target's rows.
  void check(const Sequence& s) const {
    const Tokens committed(s.tokens.begin(), s.tokens.begin() + s.num_committed);
    for (const toy::HeadLayers* layer : all) {
      const toy::HeadLayers::Read& read = layer->cache(s.slot);
      const toy::HeadLayers::Read expected = layer->expected(committed, s.num_committed);
      CHECK(read.size() <= expected.size() && std::equal(read.begin(), read.end(), expected.begin()));
    }
  }
  int num_passes() const {
    int sum = 0;
    for (const toy::HeadLayers* layer : all) sum += layer->num_passes;
    return sum;
  }
};

// Checks the greedy drafts that it lets through.
class CheckedProposer final : public Proposer {
 public:
  CheckedProposer(Proposer& proposer, const Head& head) : proposer_(proposer), head_(head) {}
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override {
    proposer_.propose(requests, stats);
    for (const ProposalRequest& request : requests) {
      const Sequence& s = *request.sequence;
      for (int place = 0; place < s.num_drafted(); ++place) {
        if (s.origins[idx(place)] != DraftOrigin::model) continue;
        const Tokens text(s.tokens.begin(), s.tokens.begin() + s.num_committed + place);
        const std::vector<float> row = toy::layered_logits_after(head_.all, text, s.num_committed);
        CHECK(s.tokens[text.size()] == std::max_element(row.begin(), row.end()) - row.begin());
        ++num_checked;
      }
    }
  }
  int room(int num_committed) const override { return proposer_.room(num_committed); }
  void prefill(const Sequence& sequence, int length) override { proposer_.prefill(sequence, length); }
  void truncate(int slot, int length) override { proposer_.truncate(slot, length); }
  void copy(int from, int to) override { proposer_.copy(from, to); }
  int num_checked = 0;

 private:
  Proposer& proposer_;
  const Head& head_;
};

// The trees of a cycle.
class TreesSeen final : public Proposer {
 public:
  explicit TreesSeen(Proposer& proposer) : proposer_(proposer) {}
  struct Node {
    Tokens text;  // before it
    Token token;
    int num_committed;
  };
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override {
    const std::int64_t before = stats.draft_calls;
    proposer_.propose(requests, stats);
    num_calls = static_cast<int>(stats.draft_calls - before);
    first_children.clear();
    for (const ProposalRequest& request : requests) {
      const Sequence& s = *request.sequence;
      std::vector<bool> has_child(idx(s.tree.size() + 1));
      for (int node = 0; node < s.tree.size(); ++node) {
        const int parent = s.tree.parents[idx(node)];
        if (has_child[idx(parent + 1)]) continue;
        has_child[idx(parent + 1)] = true;
        Tokens text(s.tokens.begin(), s.tokens.begin() + s.num_committed);
        for (const int above : sampling::path_to(s.tree, node)) text.push_back(s.tree.tokens[idx(above)]);
        const Token token = text.back();
        text.pop_back();
        first_children.push_back({text, token, s.num_committed});
      }
    }
  }
  int room(int num_committed) const override { return proposer_.room(num_committed); }
  void prefill(const Sequence& sequence, int length) override { proposer_.prefill(sequence, length); }
  void truncate(int slot, int length) override { proposer_.truncate(slot, length); }
  void copy(int from, int to) override { proposer_.copy(from, to); }
  void keep_path(const Sequence& s, const std::vector<int>& path) override { proposer_.keep_path(s, path); }
  std::vector<Node> first_children;
  int num_calls = 0;

 private:
  Proposer& proposer_;
};

}  // namespace

// One pass for each draft, by the layer of its place.
TEST(each_layer_drafts_its_own_place) {
  for (const int num_layers : {1, 2, 3}) {
    for (const int k : {1, 2, 5}) {
      for (const int chunk : {1, 3, 100}) {
        Head toy(num_layers);
        DraftModelProposer model(*toy.head, vocabulary);
        CheckedProposer proposer(model, toy);
        Decoder decoder(toy.head->target(), &proposer);
        const auto s = sequence_of(prompt, k, 40, 0, 0.0);
        while (!decoder.prefill(*s, chunk)) toy.check(*s);
        while (s->finish == Finish::none) {
          const int before = toy.num_passes(), drafts = std::min(k, s->remaining - 1);
          decoder.cycle({s.get()});
          CHECK(!s->error);
          CHECK(toy.num_passes() - before == drafts);
          toy.check(*s);
        }
        CHECK(s->tokens == greedy_text(40));
        CHECK(0 < s->stats.accepted && s->stats.accepted < s->stats.drafted);
        CHECK(proposer.num_checked == s->stats.drafted);
      }
    }
  }
}

// A pass for each level, by the layer of the place after it; the first children are what a chain would draft. Alone and
// with others, whose trees have other sizes. A layer that has not drafted for long reads on in a pass of its own.
TEST(a_pass_for_each_level_of_a_tree) {
  constexpr int sizes[] = {9, 14, 5}, late = 12;
  for (const int num_layers : {2, 3}) {
    for (const bool together : {false, true}) {
      Head toy(num_layers, 3, 64, 128);
      for (const auto& layer : toy.layers) layer->branches = true;
      DraftModelProposer proposer(*toy.head, vocabulary);
      TreesSeen seen(proposer);
      Decoder decoder(toy.head->target(), &seen);
      std::vector<Tokens> prompts;
      std::vector<std::unique_ptr<Sequence>> all;
      std::vector<Sequence*> running;
      for (int slot = 0; slot < (together ? 3 : 1); ++slot) {
        prompts.push_back({slot, 1, 2, 1});
        all.push_back(sequence_of(prompts.back(), 14, 40, slot, 0.0));
        running.push_back(all.back().get());
        decoder.prefill(*all.back());
      }
      int num_cycles = 0, caught_up = 0;
      while (!running.empty()) {
        const bool is_early = ++num_cycles < late;  // only the first layer drafts
        for (Sequence* const s : running) s->max_tree_size = is_early ? 1 : sizes[idx(s->slot)];
        seen.num_calls = 0;
        const int before = toy.num_passes();
        decoder.cycle(running);
        const int to_catch_up = toy.num_passes() - before - seen.num_calls;
        CHECK(0 <= to_catch_up && to_catch_up <= (is_early ? 0 : (num_layers - 1) * static_cast<int>(running.size())));
        caught_up += to_catch_up;
        for (const Sequence* s : running) toy.check(*s);
        for (const TreesSeen::Node& node : seen.first_children) {
          const std::vector<float> row = toy::layered_logits_after(toy.all, node.text, node.num_committed);
          CHECK(node.token == std::max_element(row.begin(), row.end()) - row.begin());
        }
        running.erase(
            std::remove_if(running.begin(), running.end(), [](const Sequence* s) { return s->finish != Finish::none; }),
            running.end());
      }
      CHECK(caught_up >= (num_layers - 1) * static_cast<int>(all.size()));
      for (const auto& s : all) {
        CHECK(!s->error && s->tokens == greedy_text(40, prompts[idx(s->slot)]));
        CHECK(s->stats.accepted > 0);
      }
    }
  }
}

// Each drafts as if it were alone, behind copies, too; with a small batch reading takes more passes.
TEST(copies_and_several_sequences) {
  for (const int batch : {4, 64}) {
    std::vector<Tokens> alone;
    for (const bool together : {false, true}) {
      Head toy(2, 4, 64, batch);
      CombinedProposer combined({*toy.head, vocabulary}, nullptr, CopiedTexts::all, 0.2);
      CheckedProposer proposer(combined, toy);
      Decoder decoder(toy.head->target(), &proposer);
      std::vector<std::unique_ptr<Sequence>> all;
      std::vector<Sequence*> running;
      for (const int k : {1, 4, 4, 6}) {
        const int slot = static_cast<int>(all.size());
        all.push_back(sequence_of({slot, 1, 2, 1, slot}, k, 20, slot, 0.0));
        running.push_back(all.back().get());
        decoder.prefill(*all.back());
      }
      while (together && batch > 16 && !running.empty()) {
        decoder.cycle(running);
        for (const Sequence* s : running) toy.check(*s);
        running.erase(
            std::remove_if(running.begin(), running.end(), [](const Sequence* s) { return s->finish != Finish::none; }),
            running.end());
      }
      int copies = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        while (all[i]->finish == Finish::none) decoder.cycle({all[i].get()});
        copies += static_cast<int>(all[i]->stats.drafted_copies);
        if (together) CHECK(all[i]->tokens == alone[i]);
        else alone.push_back(all[i]->tokens);
      }
      CHECK(copies > 0 && proposer.num_checked > 0);
    }
  }
}

// A pass of the target or of any layer that fails, at every place of a run; and a target that cannot go back.
TEST(any_pass_may_fail) {
  const Tokens expected = greedy_text(24);
  for (const bool goes_back : {true, false}) {
    for (const bool of_head : {false, true}) {
      for (int failing = 1; failing < 120; ++failing) {
        const bool branches = failing >= 60;
        Head toy(3, 1, 64, branches ? 32 : 8);
        toy.target.goes_back = goes_back;
        int passes = 0;
        const auto fail = [&](int) {
          if (++passes == failing % 60) throw Cancelled("now");
        };
        for (const auto& layer : toy.layers) {
          layer->branches = branches;
          if (of_head) layer->before_pass = fail;
        }
        if (!of_head) toy.target.before_pass = fail;
        CombinedProposer combined({*toy.head, vocabulary}, nullptr, CopiedTexts::all, 0.3);
        CheckedProposer checked(combined, toy);  // chains
        Proposer& proposer = branches ? static_cast<Proposer&>(combined) : checked;
        Decoder decoder(toy.head->target(), &proposer);
        const auto s = sequence_of(prompt, 4, 24, 0, 0.0);
        s->max_tree_size = branches ? 9 : 0;
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

// A request that shares a prefix of any length with what is cached reads on from there, in this slot or another. Before
// it one draft per cycle was made, so the other layers are behind.
TEST(prefixes_are_reused) {
  const Tokens all = greedy_text(20);
  for (const bool copied : {false, true}) {
    for (int shared = 0; shared < static_cast<int>(all.size()); ++shared) {
      Head toy(3, 2);
      DraftModelProposer model(*toy.head, vocabulary);
      CheckedProposer proposer(model, toy);
      Decoder decoder(toy.head->target(), &proposer);
      const auto s = sequence_of(prompt, 1, 20, 0, 0.0);
      decoder.prefill(*s);
      while (s->finish == Finish::none) decoder.cycle({s.get()});
      Tokens other(all.begin(), all.begin() + shared);
      for (const Token token : {0, 3, 3, 1}) other.push_back(token);
      const int slot = copied ? 1 : 0;
      if (copied) decoder.copy_prefix(0, 1, shared);
      const int cached = decoder.keep_prefix(slot, shared);
      CHECK(cached == decoder.keep_prefix(slot, shared));
      CHECK(cached >= std::min(shared, static_cast<int>(all.size()) - 1) - 1);
      const auto t = sequence_of(other, 4, 12, slot, 0.0);
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

// Layers that do not draft leave the rows of few tokens; they read on later.
TEST(rows_do_not_pile_up) {
  for (const int k : {0, 1}) {
    Head toy(3, 1, 600, 64);
    DraftModelProposer model(*toy.head, vocabulary);
    CheckedProposer proposer(model, toy);
    Decoder decoder(toy.head->target(), &proposer);
    const auto s = sequence_of(prompt, k, 500, 0, 0.0);
    decoder.prefill(*s);
    for (int i = 0; i < 250; ++i) decoder.cycle({s.get()});
    for (const auto& layer : toy.layers) CHECK(s->num_committed - layer->length(0) < 80);
    s->num_draft_tokens = 4;
    const std::int64_t before = s->stats.drafted;
    decoder.cycle({s.get()});
    CHECK(s->stats.drafted == before + 4);
    toy.check(*s);
  }
}

// The target's cache comes from a file, with or without the head's.
TEST(restored_caches) {
  const Tokens all = greedy_text(30);
  for (const bool with_head : {false, true}) {
    Head toy(2);
    DraftModelProposer proposer(*toy.head, vocabulary);
    Decoder decoder(toy.head->target(), &proposer);
    constexpr int count = 12;
    const Tokens first(all.begin(), all.begin() + count);
    toy.target.decode({{0, all.data(), count, 0}});  // not through the head
    if (with_head) {
      for (const auto& layer : toy.layers) {
        std::vector<float> rows;
        for (const auto& [token, row] : layer->expected(first, count)) rows.push_back(row);
        layer->decode_with({{0, all.data(), count, 0}}, rows.data());
      }
      const float row = toy::Model::hidden_after(first);
      toy.head->restored(0, count, all[count - 1], &row);
      CHECK(*toy.head->next_row(0) == row && toy.head->length(0) == count);
    }
    const auto s = sequence_of(Tokens(all.begin(), all.begin() + count + 2), 3, 20, 0, 0.0);
    CHECK(decoder.keep_prefix(0, count) == count);
    decoder.prefill(*s);
    while (s->finish == Finish::none) {
      decoder.cycle({s.get()});
      if (with_head) toy.check(*s);
    }
    for (const auto& layer : toy.layers) CHECK(layer->length(0) > count);
    CHECK(s->tokens == Tokens(all.begin(), all.begin() + count + 2 + 20));
  }
}

TEST_MAIN()
