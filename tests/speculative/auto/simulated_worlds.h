// The simulated worlds that the adaptive draft length is tested in, and that bench/draft_length/auto_constants.cpp
// measures its constants in.
#pragma once

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "speculative/simulated_decoding.h"

namespace simulated {

// Milliseconds by columns: measured for a 1.1B shape on two cores, or made up.
inline double smooth(int n) { return 26.0 + 1.3 * (n - 1); }
inline int eights(int n) { return (n + 7) / 8; }
// A kernel that works on 8 columns at a time.
inline double stepped(int n) { return 27.3 + 1.22 * n + 14.0 * (eights(n) - 1); }
inline double dear(int n) { return n == 1 ? 62.0 : 70.0 + 12.0 * n; }  // F16: the second token costs most
inline double per_token(int n) { return 40.0 + 4.8 * (n - 1); }        // each further token costs 12 %
inline double computing(int n) { return n <= 16 ? 28.0 + (n - 1) : 43.0 * n / 16.0; }
inline double stepped_computing(int n) { return std::max(28.0 + 1.2 * (n - 1), 27.0 * eights(n) + 0.6 * n); }
inline double tiny(int n) { return 1.0 + 0.01 * n; }
inline double bundled(int n) { return 0.135 + 0.065 * n; }
inline double small(int n) { return 1.0 + 0.05 * n; }
inline constexpr double (*const targets[])(int) = {smooth, stepped, dear, computing, stepped_computing, tiny};

// Confidences that are uninformative, and informative ones.
inline std::vector<Place> blind(double acceptance) { return {{0.5, 0.85, acceptance}, {0.5, 0.4, acceptance}}; }
inline const std::vector<Place> telling = {
    {0.3, 0.999, 0.97}, {0.2, 0.9, 0.85}, {0.2, 0.65, 0.65}, {0.2, 0.4, 0.45}, {0.1, 0.2, 0.2}};
inline const std::vector<Place> mostly_sure = {{0.7, 0.9, 0.95}, {0.3, 0.35, 0.5}};

inline World world_of(double (*target)(int), double draft_share, std::vector<Place> places, int num_sequences = 1) {
  World world{[target](int n) { return 1e-3 * target(n); }, nullptr, std::move(places), num_sequences};
  const double draft = draft_share * world.target_pass(1);
  if (draft > 0.0) world.draft_pass = [draft](int rows) { return draft * (1.0 + 0.03 * (rows - 1)); };
  return world;
}

template <class Check>
void in_every_world(Check check) {
  std::vector<std::vector<Place>> kinds = {telling, mostly_sure};
  for (const double acceptance : {0.2, 0.5, 0.8, 0.95}) kinds.push_back(blind(acceptance));
  for (const auto target : targets) {
    for (const double draft_share : {0.0, 0.14, 0.4}) {
      for (const auto& places : kinds) {
        for (const int num_sequences : {1, 2, 4, 8, 16}) check(world_of(target, draft_share, places, num_sequences));
      }
    }
  }
}

// Passes of small models are so short that building the graph of another size takes a large part of them.
template <class Check>
void in_every_changing_world(Check check) {
  for (const auto target : {bundled, small}) {
    for (const double draft_share : {0.0, 0.14}) {
      for (const auto& places : {telling, mostly_sure, blind(0.2), blind(0.5), blind(0.8), blind(0.95)}) {
        for (const double change : {0.03e-3, 0.1e-3, 0.2e-3}) {
          for (const double proposing : {0.1, 0.4, 0.8, 1.0}) {
            if (draft_share > 0.0 && proposing < 1.0) continue;  // a draft model always has something to propose
            World world = world_of(target, draft_share, places);
            world.change = change;
            world.proposing = proposing;
            check(world);
          }
        }
      }
    }
  }
}

// The rule's speed as a fraction of that of the best fixed K, and of plain decoding.
struct Comparison {
  int worlds = 0, below_best = 0;
  double least_of_best = 9.0, least_of_plain = 9.0, sum_of_best = 0.0;

  void add(const World& world, double rate) { add_share(rate / world.best_fixed(), rate / world.plain()); }
  void add_share(double of_best, double of_plain) {
    ++worlds;
    if (of_best < 0.95) ++below_best;
    sum_of_best += of_best;
    least_of_best = std::min(least_of_best, of_best);
    least_of_plain = std::min(least_of_plain, of_plain);
  }
  double mean_of_best() const { return sum_of_best / worlds; }
  void print(const char* what) const {
    std::printf("%s: %d worlds, of the best fixed K %.3f (mean %.3f, %d below 0.95), of plain %.3f at least\n", what,
                worlds, least_of_best, mean_of_best(), below_best, least_of_plain);
  }
};

}  // namespace simulated
