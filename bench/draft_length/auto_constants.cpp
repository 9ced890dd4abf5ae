// What each constant of num_draft_tokens = "auto" is worth: the rule runs in the simulated worlds of tests/speculative
// with that constant halved, doubled and, where that means something, at a value that takes its mechanism out.
//
//   bench_auto_constants [STRIDE [SEEDS [NAME]]]
//
// Every STRIDE-th world (7), each with SEEDS seeds (1), all constants or the one of that name. One thread, minutes.
// Printed is the regret in percent: how much slower than the best fixed K, which is known exactly in a simulation; its
// mean over the worlds and the worst of them. Negative: faster than every fixed K. The first rows repeat the defaults
// with other seeds: differences within their range mean nothing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/auto/simulated_worlds.h"

namespace {

using namespace simulated;

struct Settings {
  int stride = 7;
  std::uint64_t first_seed = 0, seeds = 1;
};

struct Regret {
  double sum = 0.0, worst = -1.0;
  int count = 0;
  void add(double share_of_best) { sum += 1.0 - share_of_best, worst = std::max(worst, 1.0 - share_of_best), ++count; }
  double mean_percent() const { return 100.0 * sum / count; }
  double worst_percent() const { return 100.0 * worst; }
};

// Calls visit(world, seed) for every stride-th world of `in_every`, with every seed.
template <class InEvery, class Visit>
void sample(const Settings& settings, InEvery in_every, Visit visit) {
  int index = 0;
  in_every([&](const World& world) {
    if (index++ % settings.stride != 0) return;
    for (std::uint64_t i = 0; i < settings.seeds; ++i) {
      visit(world, 1000 * (settings.first_seed + i) + static_cast<std::uint64_t>(index));
    }
  });
}

const auto all_worlds = [](auto check) { in_every_world(check); };
const auto changing_worlds = [](auto check) { in_every_changing_world(check); };

template <class InEvery>
Regret settled(const AutoOptions& options, const Settings& settings, InEvery in_every, double noise, double drift) {
  Regret regret;
  sample(settings, in_every, [&](World world, std::uint64_t seed) {
    world.noise = noise, world.drift = drift;
    AdaptiveDraftLength rule(options);
    Machine machine(rule, seed);
    machine.cycles(world, 200);
    regret.add(machine.cycles(world, 800).rate() / world.best_fixed());
  });
  return regret;
}

Regret first_text(const AutoOptions& options, const Settings& settings) {
  Regret regret;
  sample(settings, all_worlds, [&](const World& world, std::uint64_t seed) {
    AdaptiveDraftLength rule(options);
    regret.add(Machine(rule, seed).text(world, 96).rate() / world.best_fixed());
  });
  return regret;
}

// Texts of 400 tokens whose drafts are useful, useless, useful, by turns.
Regret turning(const AutoOptions& options, const Settings& settings) {
  Regret regret;
  for (const auto target : {smooth, stepped_computing, small}) {
    for (const int num_sequences : {1, 8}) {
      for (std::uint64_t seed = 0; seed < 2 * settings.seeds; ++seed) {
        AdaptiveDraftLength rule(options);
        Machine machine(rule, settings.first_seed + seed);
        for (int turn = 0; turn < 8; ++turn) {
          const World world = world_of(target, 0.14, blind(turn % 2 == 0 ? 0.85 : 0.05), num_sequences);
          const double rate = machine.text(world, 400).rate();
          if (turn > 0) regret.add(rate / world.best_fixed());
        }
      }
    }
  }
  return regret;
}

// 96 cycles of a new process on a model that fits the caches, where no draft pays; the first passes are slow.
Regret cold(const AutoOptions& options, const Settings& settings) {
  Regret regret;
  for (const World& world :
       {world_of(bundled, 0.4, telling), world_of([](int n) { return 0.4 + 0.6 * n; }, 0.3, telling)}) {
    for (std::uint64_t seed = 0; seed < 8 * settings.seeds; ++seed) {
      AdaptiveDraftLength rule(options);
      for (const double coldness : {10.0, 3.0, 2.0, 1.5}) {
        rule.begin_cycle(1);
        rule.end_cycle(1, 1, coldness * world.target_pass(1), 0.0);
      }
      Machine machine(rule, settings.first_seed + seed);
      regret.add(machine.cycles(world, 96).rate() / world.best_fixed());
    }
  }
  return regret;
}

void row(const std::string& name, const AutoOptions& options, const Settings& settings) {
  std::printf("| %s |", name.c_str());
  for (const Regret& regret :
       {settled(options, settings, all_worlds, 0.05, 0.0), settled(options, settings, all_worlds, 0.3, 0.01),
        settled(options, settings, changing_worlds, 0.05, 0.0), first_text(options, settings),
        turning(options, settings), cold(options, settings)}) {
    std::printf(" %.1f, %.0f |", regret.mean_percent(), regret.worst_percent());
  }
  std::printf("\n");
  std::fflush(stdout);
}

struct Constant {
  const char* name;
  std::vector<double> values;  // to try
  std::function<void(AutoOptions&, double)> set;
};

template <class Group, class T>
Constant constant_of(const char* name, Group group, T member, std::vector<double> values) {
  return {name, std::move(values), [group, member](AutoOptions& options, double value) {
            auto& stored = group(options).*member;
            stored = static_cast<std::remove_reference_t<decltype(stored)>>(value);
          }};
}

// Half and twice its default, then what takes its mechanism out, if anything does.
template <class Group, class T>
Constant constant(const char* name, Group group, T member, std::vector<double> out = {}) {
  AutoOptions defaults;
  const auto value = static_cast<double>(group(defaults).*member);
  out.insert(out.begin(), {0.5 * value, 2.0 * value});
  return constant_of(name, group, member, out);
}

std::vector<Constant> constants() {
  const auto costs = [](AutoOptions& o) -> AutoOptions::Costs& { return o.costs; };
  const auto acceptance = [](AutoOptions& o) -> AutoOptions::Acceptance& { return o.acceptance; };
  const auto rule = [](AutoOptions& o) -> AutoOptions& { return o; };
  using C = AutoOptions::Costs;
  using A = AutoOptions::Acceptance;
  using O = AutoOptions;
  return {
      constant("tokens_per_reading", costs, &C::tokens_per_reading),
      constant("walk_variance", costs, &C::walk_variance),
      constant("speed_variance", costs, &C::speed_variance, {0.0}),
      constant("shape_variance", costs, &C::shape_variance, {0.0}),
      constant("first_noise", costs, &C::first_noise),
      constant("noise_rate", costs, &C::noise_rate, {0.0}),
      constant("outlier", costs, &C::outlier, {1e9}),
      constant("too_fast", costs, &C::too_fast, {1e9}),
      constant("longest_change", costs, &C::longest_change, {1e-12}),
      constant_of("level", acceptance, &A::level, {-0.5, 0.25, 0.5, 1.0}),
      constant("slope", acceptance, &A::slope, {0.0}),
      constant("level_variance", acceptance, &A::level_variance),
      constant("slope_variance", acceptance, &A::slope_variance, {0.0}),
      constant("drift", acceptance, &A::drift, {0.0}),
      constant_of("memory", rule, &O::memory, {0.9, 0.975, 0.0}),
      constant("trial_share", rule, &O::trial_share, {0.0}),
      constant("trials_grow", rule, &O::trials_grow, {0.0}),
      constant("optimism", rule, &O::optimism, {0.0}),
      constant("leap", rule, &O::leap, {1e6}),
      constant("warm_after", rule, &O::warm_after, {0.0}),
      constant("longest_tried", rule, &O::longest_tried),
      constant("plan_lasts", rule, &O::plan_lasts, {1.0}),
  };
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (argc > 1) settings.stride = std::max(1, std::atoi(argv[1]));
  if (argc > 2) settings.seeds = static_cast<std::uint64_t>(std::max(1, std::atoi(argv[2])));
  std::printf("| | quiet | noisy | changes | first text | turning | cold |\n|---|---|---|---|---|---|---|\n");
  for (std::uint64_t again = 0; again < 3 && argc < 4; ++again) {
    Settings other = settings;
    other.first_seed = 100 * again;
    row("defaults", AutoOptions(), other);
  }
  for (const Constant& constant : constants()) {
    if (argc > 3 && constant.name != std::string(argv[3])) continue;
    for (const double value : constant.values) {
      AutoOptions options;
      constant.set(options, value);
      row(std::string(constant.name) + " = " + number(value), options, settings);
    }
  }
  return 0;
}
