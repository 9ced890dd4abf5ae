// The adaptive draft length in simulated time (simulated_decoding.h, simulated_worlds.h), and the models it learns.
#include "check.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/auto/simulated_worlds.h"
#include "speculative/draft_rule.h"

namespace {

using namespace simulated;

Comparison long_runs(double noise, double drift) {
  Comparison comparison;
  in_every_world([&](World world) {
    world.noise = noise, world.drift = drift;
    AdaptiveDraftLength rule;
    Machine machine(rule, static_cast<std::uint64_t>(comparison.worlds));
    machine.cycles(world, 200);
    comparison.add(world, machine.cycles(world, 800).rate());
  });
  return comparison;
}

// Worlds in which the prior makes too many drafts at first, or too few.
class Fixed final : public toy::DraftRule {
 public:
  explicit Fixed(int k) : k_(k) {}
  int worth_copying(Sequence&, const std::vector<Copy>& copies, int) override {
    return std::min(k_, static_cast<int>(copies.size()));
  }
  bool worth_a_row(const Sequence& s, int) override { return s.num_drafted() < k_; }
  bool worth_a_draft(const Sequence& s, double) override { return s.num_drafted() < k_; }

 private:
  int k_;
};

// Copies if they are as certain as that, then K drafts of the model, or K drafts of the model if there are no such
// copies.
class FixedOrder final : public toy::DraftRule {
 public:
  FixedOrder(double least_confidence, int k_after_copies, int k)
      : least_confidence_(least_confidence), k_after_copies_(k_after_copies), k_(k) {}
  void begin_cycle(int) override { most_ = k_; }
  int worth_copying(Sequence&, const std::vector<Copy>& copies, int) override {
    if (copies.front().confidence < least_confidence_) return 0;
    most_ = static_cast<int>(copies.size()) + k_after_copies_;
    return static_cast<int>(copies.size());
  }
  bool worth_a_row(const Sequence& s, int) override { return s.num_drafted() < most_; }
  bool worth_a_draft(const Sequence& s, double) override { return s.num_drafted() < most_; }

 private:
  double least_confidence_;
  int k_after_copies_, k_, most_ = 0;
};

struct Order {
  double least_confidence;
  int k_after_copies, k;
};

double speed_of(const Order& order, const World& world) {
  FixedOrder rule(order.least_confidence, order.k_after_copies, order.k);
  return Machine(rule).cycles(world, 2000).rate();
}

template <class Check>
void in_every_repeating_world(Check check) {
  const std::vector<Repetition> repetitions = {{3, 60, 0.9, 0.95},    {20, 10, 0.9, 0.9},     {20, 10, 0.8, 0.7},
                                               {50, 100, 0.95, 0.97}, {100, 300, 0.95, 0.97}, {5, 3, 0.5, 0.5},
                                               {2, 20, 0.4, 0.2}};
  for (const auto target : {smooth, per_token, dear}) {
    for (const double draft_share : {0.14, 0.4}) {
      for (const auto& places : {telling, blind(0.5), blind(0.8)}) {
        for (const Repetition& repetition : repetitions) {
          World world = world_of(target, draft_share, places);
          world.draft_pass = [pass = draft_share * world.target_pass(1)](int n) {
            return pass * (1.0 + 0.06 * (n - 1));
          };
          world.repetition = repetition;
          check(world);
        }
      }
    }
  }
}

}  // namespace

TEST(the_simulation_agrees_with_the_arithmetic) {
  for (const int num_sequences : {1, 8}) {
    const World world = world_of(stepped, 0.14, telling, num_sequences);
    for (const int k : {0, 3, 7}) {
      Fixed rule(k);
      CHECK_NEAR(Machine(rule).cycles(world, 20000 / num_sequences).rate() / world.fixed(k), 1.0, 0.02);
    }
  }
}

TEST(close_to_the_best_fixed_length_in_quiet_worlds) {
  const Comparison quiet = long_runs(0.05, 0.0);
  quiet.print("quiet");
  CHECK(quiet.least_of_best > 0.9 && quiet.below_best <= quiet.worlds / 200 && quiet.mean_of_best() > 0.98);
  CHECK(quiet.least_of_plain > 0.97);
}

// Places after the first cost the draft nothing: more drafts pay than with a pass for each.
TEST(close_to_the_best_fixed_length_with_a_draft_that_fills_blocks) {
  Comparison blocks;
  int longer = 0;
  in_every_world([&](World world) {
    if (!world.draft_pass) return;
    world.drift = 0.0;
    const double per_place = world.best_fixed();
    world.fills_blocks = true;
    if (world.best_fixed() > 1.05 * per_place) ++longer;
    AdaptiveDraftLength rule;
    Machine machine(rule, static_cast<std::uint64_t>(blocks.worlds));
    machine.cycles(world, 200);
    blocks.add(world, machine.cycles(world, 800).rate());
  });
  blocks.print("blocks");
  CHECK(longer > blocks.worlds / 4);
  CHECK(blocks.least_of_best > 0.88 && blocks.below_best <= blocks.worlds / 50 && blocks.mean_of_best() > 0.97);
  CHECK(blocks.least_of_plain > 0.97);
}

// Passes take 1.15 times as long on average, at most four times, on a machine whose speed drifts: a few measurements of
// a size say little, and long drafts need many sizes.
TEST(close_to_the_best_fixed_length_beside_other_processes) {
  const Comparison noisy = long_runs(0.3, 0.01);
  noisy.print("noisy");
  CHECK(noisy.least_of_best > 0.7 && noisy.below_best <= noisy.worlds / 40 && noisy.mean_of_best() > 0.98);
  CHECK(noisy.least_of_plain > 0.9);
}

TEST(changes_of_length_are_worth_what_they_cost) {
  Comparison changing;
  for (int round = 0; round < 4; ++round) {  // one round has 2 to 6 worlds below 0.95, by chance
    in_every_changing_world([&](const World& world) {
      AdaptiveDraftLength rule;
      Machine machine(rule, static_cast<std::uint64_t>(changing.worlds));
      machine.cycles(world, 200);
      changing.add(world, machine.cycles(world, 800).rate());
    });
  }
  changing.print("changes of length");
  CHECK(changing.least_of_best > 0.8 && changing.below_best <= changing.worlds / 40 && changing.mean_of_best() > 0.98);
  CHECK(changing.least_of_plain > 0.93);
}

// Neither costs nor acceptance are known at first; the first pass of every size is a trial.
TEST(a_first_text_of_96_tokens_loses_little) {
  Comparison first;
  in_every_world([&](const World& world) {
    Speed sum;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      AdaptiveDraftLength rule;
      sum += Machine(rule, seed).text(world, 96);
    }
    first.add(world, sum.rate());
  });
  first.print("first text");
  CHECK(first.least_of_plain > 0.92 && first.mean_of_best() > 0.96);
}

World slower(World world, double factor) {
  world.target_pass = [pass = world.target_pass, factor](int n) { return factor * pass(n); };
  if (world.draft_pass) world.draft_pass = [pass = world.draft_pass, factor](int n) { return factor * pass(n); };
  return world;
}

// The first 64 tokens of a process compared with later ones: without and with what an earlier process has learnt, on a
// machine that has become faster or slower since.
TEST(what_was_learnt_serves_the_next_process) {
  for (const double factor : {1.0, 1.3, 0.7}) {
    Comparison fresh, kept;
    in_every_world([&](const World& world) {
      AdaptiveDraftLength earlier;
      Machine earlier_machine(earlier, 7);
      earlier_machine.cycles(world, 300);
      const std::optional<AutoKnowledge> known = earlier.knowledge();
      CHECK(known);
      const World now = slower(world, factor);
      Speed first, second;
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        AdaptiveDraftLength without, with;
        with.begin_with(*known);
        first += Machine(without, seed).text(now, 64);
        second += Machine(with, seed).text(now, 64);
      }
      AdaptiveDraftLength later;
      Machine machine(later, 1);
      machine.cycles(now, 200);
      const double rate = machine.cycles(now, 600).rate();
      fresh.add_share(first.rate() / rate, first.rate() / now.plain());
      kept.add_share(second.rate() / rate, second.rate() / now.plain());
    });
    std::printf("speed %.1f of the first 64 tokens, ", 1.0 / factor);
    fresh.print("anew");
    kept.print("with what was learnt");
    CHECK(kept.mean_of_best() > 0.97 && kept.mean_of_best() > fresh.mean_of_best() + 0.005);
    CHECK(kept.least_of_best > fresh.least_of_best && kept.least_of_plain > 0.94);
  }
}

// A run among other programs: their threads keep a draft's many short passes waiting most. Later runs have the machine
// for themselves, and each knows what the one before has learnt.
TEST(what_a_busy_machine_taught_is_unlearnt) {
  for (const double slowdown : {1.2, 2.0, 4.0}) {
    const World now = world_of(smooth, 0.3, blind(0.9));
    World busy = slower(now, slowdown);
    busy.draft_pass = [pass = now.draft_pass](int rows) { return 15.0 * pass(rows); };
    busy.noise = 0.5;
    AdaptiveDraftLength earlier;
    Machine(earlier, 7).cycles(busy, 300);
    AutoKnowledge known = *earlier.knowledge();
    std::printf("a machine %.1f times as slow: ", slowdown);
    double last = 0.0;
    for (std::uint64_t run = 0; run < 8; ++run) {
      AdaptiveDraftLength rule;
      rule.begin_with(known);
      last = Machine(rule, run).text(now, 128).rate() / now.best_fixed();
      known = *rule.knowledge();
      std::printf(" %.2f", last);
    }
    std::printf(" of the best fixed K, plain %.2f\n", now.plain() / now.best_fixed());
    CHECK(last > 0.9);
  }
}

// Whether there is a draft model decides whose acceptance a cycle is planned with; it is known from the start.
TEST(what_was_learnt_of_a_model_plans_the_first_cycle) {
  AdaptiveDraftLength earlier, rule;
  Machine(earlier, 7).cycles(world_of(smooth, 0.14, blind(0.95)), 300);
  rule.begin_with(*earlier.knowledge());
  Sequence s(0, {}, std::make_unique<sampling::PhiloxUniforms>(1, 0));
  rule.begin_cycle(1);
  CHECK(rule.worth_a_row(s, 0));
  CHECK(rule.outlook().acceptance > 0.8);
  const AutoKnowledge::Drafts kept = rule.knowledge()->model;
  CHECK(kept.by_row.level > 0.0 && kept.by_draft.level > 0.0);
}

TEST(how_often_there_was_something_to_propose_is_kept) {
  AdaptiveDraftLength rule;
  for (int cycle = 0; cycle < 100; ++cycle) {
    rule.begin_cycle(1);
    rule.end_cycle(1, 1, 1e-3, 0.0);
  }
  CHECK(rule.knowledge()->proposing < 0.1);
}

// The columns of a tree are no draft of another sequence, but its first one.
TEST(a_tree_pays_for_one_draft_of_the_chains_beside_it) {
  AdaptiveDraftLength rule;
  Machine(rule, 7).cycles(world_of([](int n) { return 0.4 + 0.6 * n; }, 0.3, telling, 2), 300);  // no draft pays
  Sequence s(0, {}, std::make_unique<sampling::PhiloxUniforms>(1, 0));
  rule.begin_cycle(2);
  CHECK(!rule.worth_a_draft(s, 0.01));
  rule.begin_tree();
  CHECK(rule.worth_a_draft(s, 0.01));
  s.add_draft(1, DraftOrigin::model);
  rule.drafted(s, {0.01, 0.01});
  CHECK(!rule.worth_a_draft(s, 0.01));
}

// The drafts have become useless, or useful, since.
TEST(what_was_learnt_of_other_texts_is_unlearnt) {
  for (const auto& [before, after] : {std::pair(0.95, 0.2), std::pair(0.2, 0.95)}) {
    AdaptiveDraftLength earlier;
    Machine(earlier, 7).cycles(world_of(smooth, 0.14, blind(before)), 300);
    const World now = world_of(smooth, 0.14, blind(after));
    Speed speed;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      AdaptiveDraftLength rule;
      rule.begin_with(*earlier.knowledge());
      speed += Machine(rule, seed).text(now, 200);
    }
    std::printf("drafts accepted %.2f, then %.2f: %.3f of the best fixed K\n", before, after,
                speed.rate() / now.best_fixed());
    CHECK(speed.rate() > 0.85 * now.best_fixed());
  }
}

// Negative control of the measure itself.
TEST(no_single_length_suits_all_worlds) {
  for (const int k : {0, 1, 3, 7}) {
    double least = 9.0;
    in_every_world([&](const World& world) { least = std::min(least, world.fixed(k) / world.best_fixed()); });
    CHECK(least < 0.7);
  }
}

TEST(confidence_beats_every_fixed_length_where_it_tells_much) {
  const World world = world_of(smooth, 0.12, {{0.75, 0.9, 0.98}, {0.25, 0.35, 0.05}});
  AdaptiveDraftLength rule;
  Machine machine(rule);
  machine.cycles(world, 100);
  CHECK(machine.cycles(world, 4000).rate() > 1.03 * world.best_fixed());
}

namespace {

// Compared with a rule that knows: copies, drafts of the model, or both, with the best number of each. What the model
// has not drafted it must read before it drafts again.
struct Orders {
  double least = 9.0, sum = 0.0, copies_alone = 9.0, model_alone = 9.0;
  int worlds = 0;

  void compare(const World& world) {
    double best = 0.0, best_copies = 0.0, best_model = 0.0;
    for (const int k : {0, 1, 2, 3, 4, 6, 8}) {
      best_model = std::max(best_model, speed_of({2.0, 0, k}, world));
      best = std::max(best, speed_of({0.0, 0, k}, world));
      if (k == 0) best_copies = best;
      if (k == 4) best = std::max(best, speed_of({0.0, 4, k}, world));
    }
    best = std::max(best, best_model);
    AdaptiveDraftLength rule;
    Machine machine(rule);
    machine.cycles(world, 200);
    const double of_best = machine.cycles(world, 2000).rate() / best;
    ++worlds;
    sum += of_best;
    least = std::min(least, of_best);
    copies_alone = std::min(copies_alone, best_copies / best);
    model_alone = std::min(model_alone, best_model / best);
  }
  void check(const char* what, double least_of_best) const {
    std::printf("%s: %d worlds, of the best order %.3f at least, mean %.3f\n", what, worlds, least, sum / worlds);
    CHECK(least > least_of_best && sum / worlds > 0.98);
    CHECK(copies_alone < 0.6 && model_alone < 0.6);  // negative control of the measure
  }
};

}  // namespace

TEST(chooses_between_copies_and_a_model) {
  Orders orders;
  in_every_repeating_world([&](const World& world) { orders.compare(world); });
  orders.check("copies and a model", 0.85);
}

// In every third world.
TEST(chooses_between_copies_and_a_block) {
  Orders orders;
  int count = 0;
  in_every_repeating_world([&](World world) {
    if (++count % 3 != 0) return;
    world.fills_blocks = true;
    orders.compare(world);
  });
  orders.check("copies and blocks", 0.85);
}

// The first text of a process, which does not know yet that places after the first are free.
TEST(a_first_text_with_a_draft_that_fills_blocks) {
  Comparison first;
  in_every_world([&](World world) {
    if (!world.draft_pass || world.num_sequences > 2) return;
    world.fills_blocks = true;
    AdaptiveDraftLength rule;
    first.add(world, Machine(rule, static_cast<std::uint64_t>(first.worlds)).text(world, 96).rate());
  });
  first.print("first text, blocks");
  CHECK(first.least_of_plain > 0.9 && first.mean_of_best() > 0.93);
}

TEST(follows_a_text_whose_drafts_become_useless_and_good_again) {
  for (const int num_sequences : {1, 8}) {
    const World useless = world_of(smooth, 0.14, blind(0.05), num_sequences);
    const World useful = world_of(smooth, 0.14, blind(0.85), num_sequences);
    AdaptiveDraftLength rule;
    Machine machine(rule);
    machine.cycles(useful, 300);
    machine.text(useless, 50);
    CHECK(machine.text(useless, 400).rate() > 0.96 * useless.plain());
    machine.cycles(useless, 1000);  // long enough to be quite sure
    machine.text(useful, 150);      // only trials discover it
    CHECK(machine.text(useful, 400).rate() > 0.95 * useful.best_fixed());
  }
}

TEST(follows_sequences_that_come_and_go) {
  AdaptiveDraftLength rule;
  Machine machine(rule);
  double of_best = 0.0;
  for (int round = 0; round < 60; ++round) {
    const World world = world_of(stepped_computing, 0.14, telling, 1 + round * 7 % 12);
    const double rate = machine.cycles(world, 40).rate();
    if (round < 24) continue;
    of_best += rate / world.best_fixed() / 36.0;
    CHECK(rate > 0.93 * world.plain());
  }
  CHECK(of_best > 0.96);
}

// One remaining sequence must not be compared with the rate of eight.
TEST(the_last_of_many_drafts_at_once) {
  const World many = world_of(stepped_computing, 0.14, telling, 8), one = world_of(stepped_computing, 0.14, telling, 1);
  CHECK(one.best_fixed() > 1.4 * one.plain());
  double of_best = 0.0;
  for (int round = 0; round < 40; ++round) {
    AdaptiveDraftLength rule;
    Machine machine(rule, static_cast<std::uint64_t>(round));
    machine.cycles(one, 200);
    machine.cycles(many, 100);
    of_best += machine.cycles(one, 20).rate() / one.best_fixed() / 40.0;
  }
  CHECK(of_best > 0.9);
}

TEST(a_first_cycle_that_stalls_does_not_mislead) {
  const World world = world_of(smooth, 0.12, {{0.6, 0.9, 0.9}, {0.4, 0.35, 0.4}});
  AdaptiveDraftLength rule;
  rule.begin_cycle(1);
  rule.end_cycle(1, 1, 20.0 * world.target_pass(1), 0.0);
  Machine machine(rule);
  machine.cycles(world, 200);
  CHECK(machine.cycles(world, 4000).rate() > 0.96 * world.best_fixed());
}

// Caches and pages are cold in the first pass of a process: its time must not make drafts look cheap.
TEST(a_cold_first_cycle_does_not_count) {
  const World world = world_of([](int n) { return 0.4 + 0.6 * n; }, 0.3, telling);  // no draft pays
  CHECK(world.best_fixed() <= world.plain() * 1.001);
  double of_plain = 0.0;
  for (int round = 0; round < 40; ++round) {
    AdaptiveDraftLength rule;
    rule.begin_cycle(1);
    rule.end_cycle(1, 1, 5e-3, 0.0);
    Machine machine(rule, static_cast<std::uint64_t>(round));
    of_plain += machine.cycles(world, 96).rate() / world.plain() / 40.0;
  }
  CHECK(of_plain > 0.95);
}

// For a model that fits the CPU caches, the first few passes are cold.
TEST(passes_that_get_warm_do_not_mislead) {
  const World world = world_of(bundled, 0.4, telling);  // no draft pays
  CHECK(world.best_fixed() <= world.plain() * 1.001);
  double of_plain = 0.0;
  for (int round = 0; round < 40; ++round) {
    AdaptiveDraftLength rule;
    for (const double coldness : {10.0, 3.0, 2.0, 1.5}) {
      rule.begin_cycle(1);
      rule.end_cycle(1, 1, coldness * world.target_pass(1), 0.0);
    }
    Machine machine(rule, static_cast<std::uint64_t>(round));
    of_plain += machine.cycles(world, 96).rate() / world.plain() / 40.0;
  }
  CHECK(of_plain > 0.95);
}

// Where a plain cycle takes seconds, none is spent on measuring.
TEST(the_first_cycle_drafts_if_costs_are_expected) {
  Sequence s(0, {}, std::make_unique<sampling::PhiloxUniforms>(1, 0));
  AdaptiveDraftLength unknowing, expecting;
  unknowing.begin_cycle(1);
  CHECK(!unknowing.worth_a_row(s, 1) && !unknowing.worth_a_tree(s, 1, false));
  expecting.expect(1.0, 0.01);
  expecting.begin_cycle(1);
  CHECK(expecting.worth_a_row(s, 1) && expecting.worth_a_tree(s, 1, false));
  expecting.begin_cycle(2);
  CHECK(expecting.worth_a_tree(s, 1, false));
}

TEST(drafts_of_trees_are_worth_their_time) {
  AdaptiveDraftLength rule;
  for (int i = 0; i < 60; ++i) {  // 1 s, and 0.01 s a column; 0.02 s a draft's pass, and 0.002 s a node
    rule.begin_cycle(1);
    for (const int nodes : {1, 4, 8}) rule.record_draft_pass(nodes, nodes, 0.018 + 0.002 * nodes);
    rule.end_cycle(1 + i % 24, 1, 1.0 + 0.01 * (i % 24), 0.0);
  }
  rule.begin_cycle(1);
  const auto price = [&rule](const GrowingTree& tree, std::vector<double> next) {
    return rule.price_of_drafts(tree, next);
  };
  // Drafts gained nothing so far, so a second is worth the token that plain decoding makes in it.
  CHECK_NEAR(price({8, 0.0}, {0.5}).each, 0.01, 0.002);
  CHECK_NEAR(rule.worth_of_draft_pass({8, 0.0}, 4), 0.026, 0.005);
  CHECK(price({8, 0.0}, {0.02}).is_met() && !price({8, 0.0}, {0.005}).is_met());
  // A tree that gains much raises the rate, more so where little is known.
  CHECK(price({8, 20.0}, {0.5}).each > 1.5 * price({8, 0.0}, {0.5}).each);
}

// Passes of up to 8 tokens take 1 s, longer ones 2 s: one draft never pays for the step, eight may.
TEST(drafts_of_trees_pay_for_a_step_together) {
  AdaptiveDraftLength rule;
  for (int i = 0; i < 160; ++i) {
    const int columns = 1 + i % 16;
    rule.begin_cycle(1);
    rule.end_cycle(columns, 1, columns <= 8 ? 1.0 : 2.0, 0.0);
  }
  rule.begin_cycle(1);
  const auto price = [&rule](int num_drafted, std::vector<double> next) {
    return rule.price_of_drafts({num_drafted, 0.0}, next);
  };
  CHECK(price(4, {0.2}).is_met());  // free
  CHECK(!price(7, {0.3}).is_met());
  const DraftPrice together = price(7, std::vector<double>(8, 0.5));
  CHECK(together.is_met());
  CHECK_NEAR(together.each, 1.0 / 8.0, 0.05);
  // Those that are likelier than the rest get the places before the step.
  CHECK_NEAR(price(4, {0.05, 0.3, 0.2, 0.25, 0.05}).least, 0.2, 1e-12);
}

TEST(copies_of_trees_teach_chains) {
  AdaptiveDraftLength rule;
  const Copy copy{5, 0.3}, predicted{5, 0.3, DraftOrigin::prediction};
  const double at_first = rule.probability_of(copy);
  for (int i = 0; i < 20; ++i) rule.judged(DraftOrigin::suffix, {0.3, 0.3}, false);
  CHECK(rule.probability_of(copy) < 0.5 * at_first);
  CHECK_NEAR(rule.probability_of(predicted), 0.3, 1e-9);  // of predictions nothing is learnt
  for (int i = 0; i < 60; ++i) rule.judged(DraftOrigin::model, {0.3, 0.3}, true);
  CHECK(rule.probability_of(copy) < 0.5 * at_first);
}

TEST(a_withheld_proposal_is_still_learnt_from) {
  AdaptiveDraftLength rule;
  const double confidence = 0.3;
  const auto drafts_in_one_cycle = [&](bool target_agrees) {
    SimulatedText text;
    Sequence* const s = &text.sequence;
    rule.begin_cycle(1);
    const bool worth = rule.worth_copying(*s, {{5, confidence}}, no_draft_model) == 1;
    if (worth) s->add_draft(5, DraftOrigin::suffix);
    rule.observe(*s, worth && target_agrees ? 1 : 0, target_agrees ? 5 : 6);
    rule.end_cycle(worth ? 2 : 1, worth && target_agrees ? 2 : 1, worth ? 1.3 : 1.0, 0.0);
    return worth;
  };
  for (int i = 0; i < 200; ++i) drafts_in_one_cycle(false);
  CHECK(!drafts_in_one_cycle(false));
  int drafted = 0;
  for (int i = 0; i < 60; ++i) drafted += drafts_in_one_cycle(true) ? 1 : 0;
  CHECK(drafted > 20);
}

TEST(pass_costs_lean_on_their_neighbours_until_they_are_known) {
  PassCosts costs;
  CHECK(costs.empty() && costs.seconds(3) == 0.0);
  for (int i = 0; i < 100; ++i) costs.record(1, 10.0), costs.record(8, 14.0);
  CHECK_NEAR(costs.seconds(1), 10.0, 1e-6);
  CHECK(costs.seconds(4) > 11.0 && costs.seconds(4) < 13.0 && costs.seconds(16) > 14.0);
  CHECK(costs.doubt(4) > costs.doubt(1) && costs.doubt(4) > costs.doubt(8) && costs.doubt(16) < costs.doubt(64));
  costs.record(4, 60.0);  // one disturbed pass changes little
  CHECK(costs.seconds(4) < 15.0);
  for (int i = 0; i < 40; ++i) costs.record(4, 11.0);
  CHECK_NEAR(costs.seconds(4), 11.0, 0.2);
}

TEST(estimates_follow_faster_passes_at_once) {
  PassCosts costs;
  for (const double n1 : {30.0, 10.0, 10.0, 10.0}) costs.record(1, n1), costs.record(8, 1.4 * n1);
  CHECK(costs.seconds(1) < 12.0 && costs.seconds(8) < 16.0);
}

TEST(pass_costs_learn_a_step_between_sizes) {
  PassCosts costs;
  for (int i = 0; i < 60; ++i) {
    for (const int n : {1, 5, 8, 9, 12}) costs.record(n, stepped(n));
  }
  for (const int n : {1, 5, 8, 9, 12}) CHECK_NEAR(costs.seconds(n) / stepped(n), 1.0, 0.01);
}

TEST(pass_costs_learn_what_a_change_of_size_takes) {
  for (const double change : {0.0, 0.1}) {
    PassCosts costs;
    Random random(4);
    int latest = 0;
    for (int i = 0; i < 300; ++i) {
      const int n = random() < 0.5 || latest == 0 ? 1 + static_cast<int>(3.0 * random()) * 3 : latest;  // 1, 4, 7
      costs.record(n, 1e-3 * ((0.135 + 0.065 * n + (n == latest ? 0.0 : change)) * (1.0 + 0.1 * random())));
      latest = n;
    }
    CHECK_NEAR(1e3 * costs.change(), 1.05 * change, 0.01);
    for (const int n : {1, 4, 7}) CHECK_NEAR(costs.seconds(n) / (1.05e-3 * (0.135 + 0.065 * n)), 1.0, 0.05);
  }
}

TEST(pass_costs_never_fall_with_size) {
  PassCosts costs;
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    costs.record(i % 9 + 1, 20.0 + 10.0 * random());
    for (int n = 1; n < 20; ++n) CHECK(costs.seconds(n + 1) >= costs.seconds(n));
  }
  PassCosts flat;  // sizes between two that cost the same
  for (int i = 0; i < 50; ++i) flat.record(1, 10.0), flat.record(16, 10.0);
  for (int n = 1; n < 40; ++n) CHECK(flat.seconds(n + 1) >= flat.seconds(n));
  CHECK_NEAR(flat.seconds(4), 10.0, 1e-6);
}

TEST(pass_costs_forgive_outliers_and_follow_the_speed_of_the_machine) {
  PassCosts costs;
  for (int i = 0; i < 20; ++i) costs.record(1, 10.0), costs.record(8, 14.0);
  costs.record(8, 500.0);
  CHECK(costs.seconds(8) < 15.0);
  for (int i = 0; i < 150; ++i) costs.record(8, 28.0);  // twice as slow now; one token is not tried meanwhile
  CHECK_NEAR(costs.seconds(8), 28.0, 0.5);
  CHECK(costs.seconds(1) > 14.0);
}

// Compared with the mean over the prior's levels and slopes, which are independent and normal.
TEST(an_expected_acceptance_is_the_mean_over_what_is_possible) {
  AutoOptions::Acceptance options;
  options.level = 0.3, options.slope = 1.0;
  const AcceptanceModel unknowing(options);
  for (const double confidence : {0.02, 0.3, 0.5, 0.9, 0.998}) {
    const double x = std::log(confidence / (1.0 - confidence));
    double sum = 0.0, weights = 0.0;
    for (double z = -6.0; z <= 6.0; z += 0.01) {
      const double weight = std::exp(-0.5 * z * z);
      const double spread = std::sqrt(options.level_variance + options.slope_variance * x * x);
      sum += weight / (1.0 + std::exp(-options.level - options.slope * x - spread * z));
      weights += weight;
    }
    CHECK_NEAR(unknowing.expected_probability(confidence), sum / weights, 0.02);
  }
  CHECK(unknowing.expected_probability(0.998) < unknowing.probability(0.998) - 0.01);
  AcceptanceModel knowing(options);
  for (int i = 0; i < 2000; ++i) knowing.learn(0.1 + 0.1 * (i % 8), i % 3 != 0);
  CHECK_NEAR(knowing.expected_probability(0.5), knowing.probability(0.5), 0.002);
}

TEST(acceptance_is_learnt_from_few_verdicts) {
  AcceptanceModel telling_draft, useless_draft;
  Random random(5);
  for (int i = 0; i < 100; ++i) {
    const double confidence = i % 2 == 0 ? 0.9 : 0.2;
    telling_draft.learn(confidence, random() < confidence);
    useless_draft.learn(confidence, false);
  }
  CHECK(telling_draft.probability(0.9) > 0.8 && telling_draft.probability(0.2) < 0.4);
  CHECK(telling_draft.probability(0.99) > telling_draft.probability(0.9));
  CHECK(useless_draft.probability(0.9) < 0.15);
  for (int i = 0; i < 300; ++i) useless_draft.forget();
  for (int i = 0; i < 8; ++i) useless_draft.learn(0.9, true);
  CHECK(useless_draft.probability(0.9) > 0.5);
}

TEST_MAIN()
