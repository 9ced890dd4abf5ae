// The adaptive draft length in simulated time: costs, confidences and verdicts are made here, so that every fixed K can be
// run on the same terms.

#include <functional>
#include <memory>

#include "check.h"
#include "speculative/adaptive_draft_length.h"
#include "toy_model.h"

namespace {

using namespace specdec;

// Uniforms in [0, 1), the same in every run.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  double operator()() { return static_cast<double>((state_ = toy::mix(state_)) >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

struct World {
  double draft_pass;                                 // seconds
  std::function<double(int)> target_pass;            // by number of tokens
  double sure;                                       // share of places where the draft is sure of itself
  double accepted_if_sure, accepted_otherwise;
  double noise = 0.0;                                // passes take up to this share longer
  double stalls = 0.0;                               // share of passes that take two to five times as long
};

std::unique_ptr<Sequence> new_sequence() {
  auto s = std::make_unique<Sequence>(0, sampling::SamplingParams(), std::make_unique<sampling::PhiloxUniforms>(1, 0));
  s->tokens = {0};
  s->num_committed = 1;
  s->num_draft_tokens = auto_draft_tokens;
  return s;
}

// Tokens per second over so many cycles; rule: null drafts fixed_k tokens.
double throughput(const World& world, DraftLength* rule, int fixed_k, int num_cycles, Random& random) {
  auto s = new_sequence();
  double time = 0.0, tokens = 0.0;
  const auto takes = [&](double seconds) { 
    return seconds * (1.0 + world.noise * random()) * (random() < world.stalls ? 2.0 + 3.0 * random() : 1.0);
  };
  for (int cycle = 0; cycle < num_cycles; ++cycle) {
    s->plan.clear();
    s->tokens.resize(1);
    double proposing = 0.0;
    int num_accepted = 0;
    bool refused = false;
    if (rule) rule->begin_cycle(1);
    while (s->num_drafted() < (rule ? 20 : fixed_k)) {
      if (rule && !rule->worth_a_row(*s)) break;
      const double pass = takes(world.draft_pass);
      proposing += pass;
      if (rule) rule->record_draft_pass(pass);
      const bool sure = random() < world.sure;
      const double confidence = sure ? 0.9 : 0.35;
      if (rule && !rule->worth_a_draft(*s, confidence)) break;
      s->tokens.push_back(0);
      if (rule) rule->drafted(*s, confidence, confidence);
      refused = refused || random() >= (sure ? world.accepted_if_sure : world.accepted_otherwise);
      if (!refused) ++num_accepted;
    }
    const int num_scored = s->num_drafted() + 1;
    const double seconds = proposing + takes(world.target_pass(num_scored));
    if (rule) {
      rule->observe(*s, num_accepted, 0);
      rule->end_cycle(num_scored, num_accepted + 1, seconds, proposing);
    }
    time += seconds;
    tokens += num_accepted + 1;
  }
  return tokens / time;
}

double best_fixed(const World& world) {
  double best = 0.0;
  for (int k = 0; k <= 16; ++k) {
    Random random(7);
    best = std::max(best, throughput(world, nullptr, k, 4000, random));
  }
  return best;
}

double adaptive(const World& world, AdaptiveDraftLength& rule, int num_cycles, std::uint64_t seed = 3) {
  Random random(seed);
  return throughput(world, &rule, 0, num_cycles, random);
}

// Milliseconds of the 1.1B shape on two cores, from bench/RESULTS.md.
double mxfp6(int n) { return 26.0 + 1.3 * (n - 1); }
double f16(int n) { return n == 1 ? 62.0 : 70.0 + 12.0 * n; }

}  // namespace

TEST(within_a_few_percent_of_the_best_fixed_length) {
  const World worlds[] = {
      {3.0, mxfp6, 0.7, 0.95, 0.5, 0.1}, {3.0, mxfp6, 0.5, 0.9, 0.3, 0.1}, {3.0, mxfp6, 0.2, 0.8, 0.2, 0.1},
      {8.0, mxfp6, 0.8, 0.9, 0.4, 0.1},  {0.5, mxfp6, 0.6, 0.9, 0.3, 0.1}, {3.0, f16, 0.7, 0.95, 0.5, 0.1},
      {3.0, f16, 0.5, 0.7, 0.3, 0.1},    {0.3, f16, 0.9, 0.98, 0.5, 0.1}, {0.3, mxfp6, 0.6, 0.9, 0.5, 0.1},
      // Other processes at work.
      {0.3, mxfp6, 0.6, 0.9, 0.5, 0.3, 0.2}, {3.0, mxfp6, 0.7, 0.95, 0.5, 0.3, 0.2}, {3.0, f16, 0.7, 0.95, 0.5, 0.3, 0.2},
  };
  for (const World& world : worlds) {
    AdaptiveDraftLength rule;
    adaptive(world, rule, 100);
    CHECK(adaptive(world, rule, 4000) > 0.96 * best_fixed(world));
  }
}

TEST(confidence_beats_every_fixed_length_where_it_tells_much) {
  const World world = {3.0, mxfp6, 0.75, 0.98, 0.05};
  AdaptiveDraftLength rule;
  adaptive(world, rule, 100);
  CHECK(adaptive(world, rule, 4000) > 1.03 * best_fixed(world));
}

TEST(a_useless_draft_costs_next_to_nothing) {
  for (const auto& target : {mxfp6, f16}) {
    const World world = {8.0, target, 0.5, 0.02, 0.0, 0.1};
    AdaptiveDraftLength rule;
    adaptive(world, rule, 100);
    Random random(7);
    CHECK(adaptive(world, rule, 4000) > 0.98 * throughput(world, nullptr, 0, 4000, random));
  }
}

TEST(drafting_starts_again_when_it_pays) {
  const World useless = {8.0, mxfp6, 0.5, 0.02, 0.0}, useful = {8.0, mxfp6, 0.8, 0.95, 0.5};
  AdaptiveDraftLength rule;
  adaptive(useless, rule, 2000);
  adaptive(useful, rule, 1500);  // found by probes alone
  CHECK(adaptive(useful, rule, 2000) > 0.95 * best_fixed(useful));
  adaptive(useless, rule, 200);
  Random random(7);
  CHECK(adaptive(useless, rule, 2000) > 0.97 * throughput(useless, nullptr, 0, 2000, random));
}

TEST(a_first_cycle_that_stalls_does_not_mislead) {
  const World world = {3.0, mxfp6, 0.6, 0.9, 0.4, 0.1};
  AdaptiveDraftLength rule;
  rule.begin_cycle(1);
  rule.end_cycle(1, 1, 500.0, 0.0);  // twenty times as long as it should
  adaptive(world, rule, 200);
  CHECK(adaptive(world, rule, 4000) > 0.97 * best_fixed(world));
}

TEST(a_withheld_repetition_is_judged_all_the_same) {
  AdaptiveDraftLength rule;
  const double confidence = 0.3;
  const auto drafts_in_one_cycle = [&](bool target_agrees) {
    auto s = new_sequence();
    rule.begin_cycle(1);
    const bool worth = rule.worth_a_draft(*s, confidence);
    if (worth) {
      s->tokens.push_back(5);
      rule.drafted(*s, confidence, confidence);
    } else {
      rule.withheld(*s, confidence, 5);
    }
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

TEST(pass_costs_are_interpolated_and_never_fall) {
  PassCosts costs;
  CHECK(costs.empty() && costs.seconds(3) == 0.0);
  costs.record(1, 10.0);
  CHECK(costs.seconds(1) == 10.0 && costs.seconds(3) > 10.0);
  costs.record(5, 12.0);
  CHECK_NEAR(costs.seconds(3), 11.0, 1e-12);
  CHECK_NEAR(costs.seconds(9), 14.0, 1e-12);
  costs.record(3, 9.0);  // the pass of one token must have been disturbed
  CHECK_NEAR(costs.seconds(1), 9.0, 1e-12);
  for (int i = 0; i < 200; ++i) {
    costs.record(i % 9 + 1, 20.0 + (i * 37 % 10));
    for (int n = 1; n < 20; ++n) CHECK(costs.seconds(n + 1) >= costs.seconds(n));
  }
}

TEST(pass_costs_forgive_outliers_and_follow_drift) {
  PassCosts costs;
  for (int i = 0; i < 20; ++i) costs.record(1, 10.0), costs.record(8, 14.0);
  costs.record(8, 500.0);
  CHECK(costs.seconds(8) < 15.0);
  for (int i = 0; i < 150; ++i) costs.record(8, 28.0);  // twice as slow now; one token is not tried meanwhile
  CHECK_NEAR(costs.seconds(8), 28.0, 0.5);
  CHECK(costs.seconds(1) > 10.2);
}

TEST_MAIN()
