// The best number of drafts and that of "auto", in simulated time with measured costs of passes:
//
//   bench_best_length NAME DRAFT_MS TOKENS:MS TOKENS:MS ...
//
// DRAFT_MS: of a draft model's pass; 0: copies of the text. TOKENS:MS: of the target's pass over as many tokens, from 1
// on; between two of them the cost is interpolated, beyond the last it goes on like that. Prints a row of a markdown
// table per world: drafts whose confidence says nothing about their acceptance, and (telling) a draft whose confidences
// do. "auto" starts from nothing in each; passes that it sees are disturbed by 2.5 % on average, the speeds are
// without.
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/auto/simulated_worlds.h"

namespace {

using namespace simulated;

using Costs = std::vector<std::pair<int, double>>;  // tokens, seconds; ascending

double cost(const Costs& costs, int n) {
  std::size_t above = 1;
  while (above + 1 < costs.size() && costs[above].first < n) ++above;
  const auto& [below_n, below] = costs[above - 1];
  const auto& [above_n, at_above] = costs[above];
  return below + (at_above - below) * (n - below_n) / (above_n - below_n);
}

int best_length(const World& world) {
  int best = 0;
  for (int k = 1; k <= 24; ++k) best = world.fixed(k) > world.fixed(best) ? k : best;
  return best;
}

void print_row(const char* name, const World& world, const char* kind) {
  constexpr int seeds = 5;
  double first = 0.0, later = 0.0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    AdaptiveDraftLength rule;
    Machine machine(rule, seed);
    first += machine.text(world, 160).rate() / seeds;
    later += machine.text(world, 1000).rate() / seeds;
  }
  std::printf("| %s | %s | %.2f | %d | %.2f | %.3f | %.3f | %.3f |\n", name, kind, world.acceptance(),
              best_length(world), world.best_fixed() / world.plain(), first / world.plain(), later / world.plain(),
              later / world.best_fixed());
}

}  // namespace

int main(int argc, char** argv) {
  Costs costs;
  for (int i = 3; i < argc; ++i) {
    int tokens = 0;
    double milliseconds = 0.0;
    const bool is_cost = std::sscanf(argv[i], "%d:%lf", &tokens, &milliseconds) == 2 && milliseconds > 0.0;
    if (!is_cost || tokens != (costs.empty() ? 1 : std::max(tokens, costs.back().first + 1))) costs.clear(), i = argc;
    else costs.push_back({tokens, 1e-3 * milliseconds});
  }
  if (costs.size() < 2) return std::fprintf(stderr, "usage: best_length NAME DRAFT_MS 1:MS 2:MS ... (ascending)\n"), 2;
  const double draft = 1e-3 * std::atof(argv[2]);
  std::printf(
      "| passes of | drafts | accepted | best K | of plain | auto, first 160 tokens: of plain | later: of plain | of "
      "best K |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  const auto row = [&](const char* kind, std::vector<Place> places) {
    World world{[&](int n) { return cost(costs, n); }, nullptr, std::move(places)};
    if (draft > 0.0) world.draft_pass = [draft](int) { return draft; };
    print_row(argv[1], world, kind);
  };
  for (const double acceptance : {0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95}) row("blind", blind(acceptance));
  row("telling", telling);
  return 0;
}
