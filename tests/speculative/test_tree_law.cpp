// The distribution of the output with trees, by exact enumeration through the real loop. What decides on a node is
// computed here from the tables, by the verification that tests/sampling/test_verify_tree.cpp proves.

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "base/error.h"
#include "check.h"
#include "explorer.h"
#include "sampling/enumerate.h"
#include "speculative/block_drafter.h"
#include "speculative/combined_proposer.h"
#include "speculative/decoder.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/drafting_head.h"
#include "speculative/layered_head.h"
#include "toy_blocks.h"
#include "toy_constraint.h"
#include "toy_head.h"
#include "toy_model.h"

namespace {

using namespace specdec;
using sampling::Distribution;
using sampling::Purpose;
using sampling::SamplingParams;
using Tokens = std::vector<Token>;
using Law = std::map<Tokens, double>;

const Tokens prompt = {0, 1, 0};

struct Setting {
  int vocabulary = 2, size = 3, length = 3;
  int draft_vocabulary = 0;  // 0: the target's
  std::uint64_t seed = 1;
  Drafting drafting = Drafting::sampled;
  Verification verification = Verification::block;
  SamplingParams params;
  toy::Allowed allowed;
  std::int64_t* num_copies = nullptr;  // trees have copies of the text, and these are counted; null: none
  bool records_other_rows = false;     // a negative control
  bool withdraws = false;              // likewise
};

SamplingParams plain() {
  SamplingParams params;
  params.temperature = params.top_p = 1.0;
  params.top_k = 0;
  params.min_p = 0.0;
  return params;
}

Distribution row_of(std::vector<float> logits, const Setting& setting, const Tokens& text, bool of_draft = false) {
  if (setting.allowed) {
    const std::uint32_t allowed = setting.allowed(Tokens(text.begin() + 3, text.end()));
    for (std::size_t token = 0; token < logits.size(); ++token) {
      if ((allowed >> token & 1u) == 0) logits[token] = -INFINITY;
    }
  }
  Distribution row;
  const int size = std::min(setting.vocabulary, static_cast<int>(logits.size()));
  sampling::Transforms transforms(setting.params);
  if (of_draft) transforms = transforms.with_tail(40, 0.1);  // as cpp/speculative/tree_drafter.cpp does
  transforms.apply(logits.data(), size, text.data(), static_cast<int>(text.size()), row);
  return row;
}

Distribution row_after(const toy::Model& model, const Setting& setting, const Tokens& text) {
  return row_of(model.logits_after(text), setting, text);
}

// The draft's logits after a text, whose first tokens are committed.
using DraftLogits = std::function<std::vector<float>(const Tokens& text, int num_committed)>;

class EnumeratedUniforms final : public sampling::UniformSource {
 public:
  EnumeratedUniforms(toy::Explorer& explorer, const toy::Model& target, DraftLogits draft, const Setting& setting)
      : explorer_(explorer), target_(target), draft_(std::move(draft)), setting_(setting) {}
  const Sequence* sequence = nullptr;
  int places = 0;  // that the draft fills; 0: as many as there are

  double uniform(std::int64_t position, int place, Purpose purpose) const override {
    CHECK(position == sequence->num_committed);
    CHECK(used_.insert({position, place, purpose}).second);  // no number decides twice
    toy::Explorer::Interval interval{0.0, 1.0};
    const sampling::DraftTree& tree = sequence->tree;
    if (purpose == Purpose::draft) {  // of any row, without any children
      CHECK(place == tree.size());
      std::vector<double> breakpoints;
      for (int node = -1; node < tree.size(); ++node) {
        const Tokens text = text_of(node);
        if (places > 0 && static_cast<int>(text.size()) >= sequence->num_committed + places) continue;
        Distribution rest = row_of(draft_(text, sequence->num_committed), setting_, text, true);
        for (int child = node + 1; child < tree.size(); ++child) {
          if (tree.parents[idx(child)] == node) sampling::remove_token(rest, tree.tokens[idx(child)]);
        }
        add_cdf(rest, breakpoints);
      }
      return explorer_.choose(breakpoints, interval);
    }
    std::vector<double> breakpoints;
    sampling::TreeScratch scratch;
    Distribution drafted, row;
    struct Found {};
    try {
      sampling::verify_tree(
          tree, [&](int node) -> const Distribution& { return drafted = recorded(node); },
          [&](int node) -> const Distribution& { return row = row_after(target_, setting_, text_of(node)); },
          [&](int node, double probability) {
            const auto known = decided_.find({position, node});
            if (known != decided_.end()) return known->second;
            CHECK(purpose == Purpose::accept && node == place);
            asked_ = probability;
            throw Found{};
          },
          [&](const Distribution& from) {
            CHECK(purpose == Purpose::next);
            add_cdf(from, breakpoints);
            return 0;
          },
          setting_.verification == Verification::block, scratch);
    } catch (const Found&) {
      const double u = explorer_.choose({asked_}, interval);
      decided_[{position, place}] = u < asked_;
      return u;
    }
    return explorer_.choose(breakpoints, interval);
  }
  sampling::PhiloxCounter gumbel_bits(std::int64_t, std::int32_t, sampling::GumbelBits) const override {
    throw std::logic_error("no noise is drawn");
  }

 private:
  const Distribution& recorded(int node) const { return sequence->draft_probs[idx(node + 1)]; }
  Tokens text_of(int node) const {
    Tokens text(sequence->tokens.begin(), sequence->tokens.begin() + sequence->num_committed);
    for (const int i : path_to(sequence->tree, node)) text.push_back(sequence->tree.tokens[idx(i)]);
    return text;
  }
  static void add_cdf(const Distribution& row, std::vector<double>& breakpoints) {
    double sum = 0.0;
    for (const double prob : row.probs) breakpoints.push_back(sum += prob);
  }

  toy::Explorer& explorer_;
  const toy::Model& target_;
  const DraftLogits draft_;
  const Setting& setting_;
  mutable std::map<std::pair<std::int64_t, int>, bool> decided_;
  mutable std::set<std::tuple<std::int64_t, int, Purpose>> used_;
  mutable double asked_ = 0.0;
};

// Changes trees after they were grown, for negative controls.
class Tampered final : public Proposer {
 public:
  Tampered(Proposer& real, const Setting& setting) : real_(real), setting_(setting) {}
  void propose(const std::vector<ProposalRequest>& requests, Stats& stats) override {
    real_.propose(requests, stats);
    for (const ProposalRequest& request : requests) {
      Sequence& s = *request.sequence;
      if (setting_.records_other_rows) std::reverse(s.draft_probs[0].probs.begin(), s.draft_probs[0].probs.end());
      if (setting_.withdraws && s.tree.size() > 1 && s.tree.tokens.back() == 0) {
        s.tree.tokens.pop_back();
        s.tree.parents.pop_back();
      }
    }
  }
  int room(int n) const override { return real_.room(n); }
  void prefill(const Sequence& s, int length) override { real_.prefill(s, length); }
  void truncate(int slot, int length) override { real_.truncate(slot, length); }
  void copy(int from, int to) override { real_.copy(from, to); }
  void keep_path(const Sequence& s, const std::vector<int>& path) override {
    if (!setting_.withdraws) real_.keep_path(s, path);
  }

 private:
  Proposer& real_;
  const Setting& setting_;
};

std::unique_ptr<Sequence> sequence_of(const Setting& setting, std::unique_ptr<const sampling::UniformSource> uniforms,
                                      int slot = 0) {
  auto s = std::make_unique<Sequence>(slot, setting.params, std::move(uniforms));
  s->tokens = prompt;
  s->num_committed = static_cast<int>(prompt.size());
  s->num_draft_tokens = setting.size;
  s->max_tree_size = setting.size;
  s->remaining = 40;
  s->verification = setting.verification;
  s->drafting = setting.drafting;
  if (setting.allowed) {
    s->constraint = std::make_unique<sampling::ConstraintState>(
        std::make_unique<toy::Constraint>(setting.vocabulary, setting.allowed), static_cast<int>(prompt.size()));
  }
  return s;
}

// The models of one outcome.
struct Models {
  const toy::Model& target;
  LanguageModel& in_loop;  // the target as the loop uses it
  Proposer& proposer;
  DraftLogits draft;
  int places = 0;                     // that the draft fills; 0: as many as there are
  const toy::Model* reads = nullptr;  // a draft whose cache must hold the text
};

// Adds the explorer's present outcome.
void add_outcome(Law& law, const Setting& setting, toy::Explorer& explorer, const Models& models) {
  Tampered tampered(models.proposer, setting);
  const bool tampers = setting.records_other_rows || setting.withdraws;
  Decoder decoder(models.in_loop, tampers ? &tampered : &models.proposer);
  auto uniforms = std::make_unique<EnumeratedUniforms>(explorer, models.target, models.draft, setting);
  EnumeratedUniforms& source = *uniforms;
  source.places = models.places;
  const auto s = sequence_of(setting, std::move(uniforms));
  source.sequence = s.get();
  decoder.prefill(*s);
  const int wanted = static_cast<int>(prompt.size()) + setting.length;
  while (s->num_committed < wanted) {
    decoder.cycle({s.get()});
    if (s->error) std::rethrow_exception(s->error);
    CHECK(models.target.cache(0) == Tokens(s->tokens.begin(), s->tokens.end() - 1));
    if (models.reads != nullptr)
      CHECK(std::equal(models.reads->cache(0).begin(), models.reads->cache(0).end(), s->tokens.begin()));
  }
  CHECK(s->stats.drafted > 0);
  if (setting.num_copies != nullptr) *setting.num_copies += s->stats.drafted_copies;
  law[Tokens(s->tokens.begin() + 3, s->tokens.begin() + wanted)] += explorer.weight;
}

Law law_of_loop(const Setting& setting) {
  Law law;
  toy::Explorer explorer;
  do {
    explorer.restart();
    const int of_draft = setting.draft_vocabulary > 0 ? setting.draft_vocabulary : setting.vocabulary;
    toy::Model target(setting.vocabulary, setting.seed), draft(of_draft, setting.seed + 1000);
    DraftModelProposer trees(draft, setting.vocabulary);
    CombinedProposer with_copies({draft, setting.vocabulary});
    Proposer& proposer = setting.num_copies != nullptr ? static_cast<Proposer&>(with_copies) : trees;
    const auto draft_logits = [&](const Tokens& text, int) { return draft.logits_after(text); };
    add_outcome(law, setting, explorer, {target, target, proposer, draft_logits, 0, &draft});
  } while (explorer.advance());
  return law;
}

Law law_of_head(const Setting& setting, bool fuses) {
  Law law;
  toy::Explorer explorer;
  do {
    explorer.restart();
    toy::Model target(setting.vocabulary, setting.seed);
    toy::HeadLayers layers(setting.vocabulary, setting.seed + 1000, 64, 64, 1, fuses);
    layers.branches = true;
    DraftingHead head(target, layers, 1);
    DraftModelProposer trees(head, setting.vocabulary);
    const auto draft_logits = [&](const Tokens& text, int num_committed) {
      return layers.logits_after(layers.expected(text, num_committed));
    };
    add_outcome(law, setting, explorer, {target, head.target(), trees, draft_logits});
  } while (explorer.advance());
  return law;
}

// Of two layers or three.
Law law_of_layered_head(const Setting& setting, bool three) {
  Law law;
  toy::Explorer explorer;
  do {
    explorer.restart();
    toy::Model target(setting.vocabulary, setting.seed);
    std::vector<toy::HeadLayers> layers;
    for (std::uint64_t i = 1; i <= (three ? 3 : 2); ++i)
      layers.emplace_back(setting.vocabulary, setting.seed + 1000 * i);
    std::vector<HeadLayers*> pointers;
    std::vector<const toy::HeadLayers*> all;
    for (toy::HeadLayers& layer : layers) {
      layer.branches = true;
      pointers.push_back(&layer);
      all.push_back(&layer);
    }
    LayeredHead head(target, pointers, 1);
    DraftModelProposer trees(head, setting.vocabulary);
    const auto draft_logits = [&](const Tokens& text, int num_committed) {
      return toy::layered_logits_after(all, text, num_committed);
    };
    add_outcome(law, setting, explorer, {target, head.target(), trees, draft_logits});
  } while (explorer.advance());
  return law;
}

// With trees of a block drafter of that many places.
Law law_of_blocks(const Setting& setting, int places, bool biased) {
  Law law;
  toy::Explorer explorer;
  do {
    explorer.restart();
    toy::Model target(setting.vocabulary, setting.seed);
    toy::BlockLayers layers(setting.vocabulary, setting.seed + 1000, places, biased);
    BlockDrafter blocks(target, layers, 1);
    DraftModelProposer trees(blocks, setting.vocabulary);
    const int filled = std::min(places, setting.size);
    const auto draft_logits = [&](const Tokens& text, int num_committed) {
      return layers.logits_after(text, num_committed, filled);
    };
    add_outcome(law, setting, explorer, {target, blocks.target(), trees, draft_logits, filled});
  } while (explorer.advance());
  return law;
}

Law law_of_target(const Setting& setting) {
  const toy::Model target(setting.vocabulary, setting.seed);
  const auto row = [&](const Tokens& text) {
    Tokens context = prompt;
    context.insert(context.end(), text.begin(), text.end());
    return row_after(target, setting, context);
  };
  return enumerate::law_of(row, idx(setting.length));
}

double error_of(const Setting& setting) { return enumerate::distance(law_of_loop(setting), law_of_target(setting)); }

Setting setting_of(int vocabulary, int size, int length) {
  Setting s;
  s.vocabulary = vocabulary;
  s.size = size;
  s.length = length;
  s.params = plain();
  return s;
}

// Of a head of two kinds.
void check_laws(const std::function<Law(const Setting&, bool)>& law, std::uint64_t num_seeds = 2) {
  for (const Verification verification : {Verification::block, Verification::token}) {
    for (const bool kind : {false, true}) {
      for (Setting s : {setting_of(2, 1, 3), setting_of(2, 3, 3), setting_of(2, 4, 2), setting_of(3, 3, 2)}) {
        s.verification = verification;
        for (s.seed = 1; s.seed <= num_seeds; ++s.seed)
          CHECK_NEAR(enumerate::distance(law(s, kind), law_of_target(s)), 0.0, 1e-12);
      }
    }
  }
}

// The text without drafts, or with chains.
Tokens text_of(const Setting& setting, int num_tokens, bool drafts, int max_tree_size) {
  toy::Model target(setting.vocabulary, setting.seed), draft(setting.vocabulary, setting.seed + 1000);
  DraftModelProposer trees(draft, setting.vocabulary);
  Decoder decoder(target, drafts ? &trees : nullptr);
  const auto s = sequence_of(setting, std::make_unique<sampling::PhiloxUniforms>(setting.seed, 0));
  s->max_tree_size = max_tree_size;
  s->remaining = num_tokens;
  decoder.prefill(*s);
  while (s->finish == Finish::none) decoder.cycle({s.get()});
  return s->tokens;
}

}  // namespace

TEST(law_is_the_targets_for_every_size) {
  for (const Verification verification : {Verification::block, Verification::token}) {
    for (Setting s : {setting_of(2, 1, 3), setting_of(2, 2, 3), setting_of(2, 3, 2), setting_of(2, 4, 2),
                      setting_of(3, 2, 2), setting_of(3, 3, 2)}) {
      s.verification = verification;
      for (s.seed = 1; s.seed <= 2; ++s.seed) CHECK_NEAR(error_of(s), 0.0, 1e-12);
    }
  }
}

TEST(law_holds_under_transforms) {
  Setting s = setting_of(3, 2, 2);
  for (s.seed = 11; s.seed <= 13; ++s.seed) {
    s.params = plain();
    s.params.temperature = 0.6;
    CHECK_NEAR(error_of(s), 0.0, 1e-12);
    s.params.top_k = 2;
    CHECK_NEAR(error_of(s), 0.0, 1e-12);
    s.params = plain();
    s.params.repeat_penalty = 1.8;  // the history differs by branch
    CHECK_NEAR(error_of(s), 0.0, 1e-12);
    s.params = plain();
    s.params.top_p = 0.5;  // of the draft's row, what this leaves out may still be drafted
    CHECK_NEAR(error_of(s), 0.0, 1e-12);
    s.params.min_p = 0.4;
    CHECK_NEAR(error_of(s), 0.0, 1e-12);
  }
}

TEST(law_holds_when_vocabularies_differ_in_size) {
  for (const int of_draft : {2, 4}) {
    Setting s = setting_of(3, 3, of_draft < 3 ? 1 : 2);  // a toy model cannot read ids that it lacks
    s.draft_vocabulary = of_draft;
    for (s.seed = 1; s.seed <= 2; ++s.seed) CHECK_NEAR(error_of(s), 0.0, 1e-12);
  }
}

TEST(law_holds_for_argmax_drafts) {
  Setting s = setting_of(3, 4, 3);
  s.drafting = Drafting::argmax;
  for (const Verification verification : {Verification::block, Verification::token}) {
    s.verification = verification;
    for (s.seed = 1; s.seed <= 4; ++s.seed) CHECK_NEAR(error_of(s), 0.0, 1e-12);
  }
}

TEST(law_is_the_constrained_targets) {
  Setting s = setting_of(3, 3, 2);
  s.allowed = [](const Tokens& text) -> std::uint32_t {
    return text.empty() ? 0b110 : text.back() == 1 ? 0b101 : 0b011;
  };
  for (s.seed = 1; s.seed <= 2; ++s.seed) CHECK_NEAR(error_of(s), 0.0, 1e-12);
}

TEST(law_holds_with_copies_in_the_tree) {
  std::int64_t num_copies = 0;
  for (const Verification verification : {Verification::block, Verification::token}) {
    for (Setting s : {setting_of(2, 2, 3), setting_of(2, 3, 2), setting_of(2, 4, 2), setting_of(3, 3, 2)}) {
      s.verification = verification;
      s.num_copies = &num_copies;
      for (s.seed = 1; s.seed <= 3; ++s.seed) CHECK_NEAR(error_of(s), 0.0, 1e-12);
    }
  }
  CHECK(num_copies > 1000);
}

TEST(law_holds_for_trees_of_a_block_drafter) {
  check_laws([](const Setting& setting, bool biased) { return law_of_blocks(setting, 2, biased); });
}

TEST(law_holds_for_trees_of_a_head) { check_laws(law_of_head); }
TEST(law_holds_for_trees_of_a_head_of_several_layers) { check_laws(law_of_layered_head, 1); }

// Several nodes of each place, the same texts, and one pass of the drafter in a cycle.
TEST(a_block_drafter_makes_trees) {
  for (const bool biased : {false, true}) {
    for (const double temperature : {0.0, 0.9}) {
      Setting setting = setting_of(5, 12, 0);
      setting.params.temperature = temperature;
      setting.verification = Verification::invariant;
      const Tokens expected = text_of(setting, 30, false, 0);
      toy::Model target(5, setting.seed);
      toy::BlockLayers layers(5, 1001, 4, biased);
      BlockDrafter blocks(target, layers, 1);
      DraftModelProposer trees(blocks, 5);
      Decoder decoder(blocks.target(), &trees);
      const auto s = sequence_of(setting, std::make_unique<sampling::PhiloxUniforms>(setting.seed, 0));
      s->remaining = 30;
      decoder.prefill(*s);
      while (s->finish == Finish::none) decoder.cycle({s.get()});
      CHECK(s->tokens == expected);
      CHECK(s->stats.drafted > 8 * (s->stats.target_calls - 8));  // more than there are places
      CHECK(layers.num_fills <= s->stats.target_calls);
    }
  }
}

TEST(controls_must_fail) {
  Setting s = setting_of(2, 3, 2);
  s.records_other_rows = true;
  CHECK(error_of(s) > 1e-3);
  s.records_other_rows = false;
  s.withdraws = true;
  CHECK(error_of(s) > 1e-3);
  s.withdraws = false;
  std::int64_t num_copies = 0;
  s.num_copies = &num_copies;
  s.records_other_rows = true;
  CHECK(error_of(s) > 1e-3);
}

TEST(greedy_and_seeded_texts_are_those_without_drafts) {
  for (const double temperature : {0.0, 0.9}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      Setting s = setting_of(seed % 2 == 0 ? 3 : 9, 1 + static_cast<int>(seed % 13), 0);
      s.seed = seed;
      s.params.temperature = temperature;
      s.verification = Verification::invariant;
      const Tokens expected = text_of(s, 30, false, 0);
      CHECK(text_of(s, 30, true, s.size) == expected);
      CHECK(text_of(s, 30, true, 0) == expected);
    }
  }
}

TEST(rejected_drafts_are_reported_by_branch) {
  for (const int size : {0, 9}) {
    const Setting setting = setting_of(4, 5, 0);
    toy::Model target(4, 1), draft(4, 1001);
    DraftModelProposer trees(draft, 4);
    Decoder decoder(target, &trees);
    const auto s = sequence_of(setting, std::make_unique<sampling::PhiloxUniforms>(1, 0));
    s->max_tree_size = size;
    s->num_draft_tokens = 9;
    s->reports_cut_drafts = true;
    decoder.prefill(*s);
    int most_branches = 0;
    for (Stats before = s->stats; s->finish == Finish::none; before = s->stats) {
      decoder.cycle({s.get()});
      std::int64_t reported = 0;
      for (const Tokens& branch : s->cut_drafts) {
        CHECK(!branch.empty());
        reported += static_cast<std::int64_t>(branch.size());
      }
      const std::int64_t cut = s->stats.drafted - before.drafted - (s->stats.accepted - before.accepted);
      CHECK(size == 0 ? reported == cut : reported >= cut);  // branches may share their first tokens
      most_branches = std::max(most_branches, static_cast<int>(s->cut_drafts.size()));
    }
    CHECK(size == 0 ? most_branches == 1 : most_branches > 2);
  }
}

// Several sequences share passes; the texts are as alone.
TEST(sequences_together) {
  Setting s = setting_of(5, 6, 0);
  s.params.temperature = 0.0;
  toy::Model target(5, 1, 64, 64, 3), draft(5, 1001, 64, 64, 3);
  CombinedProposer proposer({draft, 5}, nullptr, CopiedTexts::all, 0.3);
  Decoder decoder(target, &proposer);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Sequence*> running;
  for (int slot = 0; slot < 3; ++slot) {
    sequences.push_back(sequence_of(s, std::make_unique<sampling::PhiloxUniforms>(1, 0), slot));
    sequences.back()->tokens[0] = slot;
    sequences.back()->max_tree_size = slot == 1 ? 0 : 6;
    running.push_back(sequences.back().get());
    decoder.prefill(*running.back());
  }
  for (int i = 0; i < 8; ++i) decoder.cycle(running);
  for (int slot = 0; slot < 3; ++slot) {
    toy::Model alone(5, 1);
    Decoder plain_decoder(alone, nullptr);
    const auto expected = sequence_of(s, std::make_unique<sampling::PhiloxUniforms>(1, 0));
    expected->tokens[0] = slot;
    plain_decoder.prefill(*expected);
    while (expected->num_committed < running[idx(slot)]->num_committed) plain_decoder.cycle({expected.get()});
    CHECK(expected->tokens == running[idx(slot)]->tokens);
  }
}

// A pass fails at any place of a run; the text stays the target's.
TEST(any_pass_may_fail) {
  Setting s = setting_of(4, 7, 0);
  s.params.temperature = 0.0;
  const Tokens expected = text_of(s, 24, false, 0);
  for (int failing = 1; failing < 60; ++failing) {
    toy::Model target(4, 1), draft(4, 1001);
    int passes = 0;
    target.before_pass = draft.before_pass = [&](int) {
      if (++passes == failing) throw Cancelled("now");
    };
    DraftModelProposer trees(draft, 4);
    Decoder decoder(target, &trees);
    const auto sequence = sequence_of(s, std::make_unique<sampling::PhiloxUniforms>(1, 0));
    sequence->remaining = 24;
    bool is_read = false;
    while (sequence->finish == Finish::none) {
      try {
        if (!is_read) is_read = decoder.prefill(*sequence);
        else decoder.cycle({sequence.get()});
      } catch (const Cancelled&) {
      }
    }
    CHECK(sequence->tokens == expected);
  }
}

// The end of the generation inside a tree: nothing follows it.
TEST(trees_end_where_the_text_ends) {
  Setting s = setting_of(4, 8, 0);
  s.params.temperature = 0.0;
  for (Token end = 0; end < 4; ++end) {
    toy::Model target(4, 1), draft(4, 1001), alone(4, 1);
    target.end_of_generation = draft.end_of_generation = alone.end_of_generation = end;
    DraftModelProposer trees(draft, 4);
    Decoder decoder(target, &trees), plain_decoder(alone, nullptr);
    const auto with = sequence_of(s, std::make_unique<sampling::PhiloxUniforms>(1, 0));
    const auto without = sequence_of(s, std::make_unique<sampling::PhiloxUniforms>(1, 0));
    decoder.prefill(*with);
    plain_decoder.prefill(*without);
    while (with->finish == Finish::none) decoder.cycle({with.get()});
    while (without->finish == Finish::none) plain_decoder.cycle({without.get()});
    CHECK(with->tokens == without->tokens && with->finish == without->finish);
  }
}

TEST_MAIN()
