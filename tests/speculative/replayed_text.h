// Decodes a text that is given in simulated time: how good are the copies that a proposer makes, and is it known when
// they are not?
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "simulated_decoding.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/proposer.h"

namespace simulated {

struct Task {
  std::vector<Token> tokens;  // prompt and answer
  int num_prompt = 0;
  std::vector<Token> prediction;  // of the answer; empty: none
};

struct Run {
  double tokens = 0.0, passes = 0.0, drafted = 0.0, seconds = 0.0;
  void operator+=(const Run& other) {
    tokens += other.tokens, passes += other.passes, drafted += other.drafted, seconds += other.seconds;
  }
};

// cost: milliseconds by columns. Passes are disturbed by 5 % on average as the rule sees them; the result has their
// undisturbed times.
inline Run replay(const Task& task, double (*cost)(int), Proposer& proposer, AdaptiveDraftLength& rule,
                  std::uint64_t seed = 1) {
  sampling::SamplingParams greedy;
  greedy.temperature = 0.0;
  Sequence s(0, greedy, std::make_unique<sampling::PhiloxUniforms>(1, 0));
  s.tokens.assign(task.tokens.begin(), task.tokens.begin() + task.num_prompt);
  s.num_committed = task.num_prompt;
  s.num_draft_tokens = auto_draft_tokens;
  if (!task.prediction.empty()) s.prediction = std::make_unique<Prediction>(s.tokens, task.prediction);
  Random random(seed);
  Run run;
  proposer.prefill(s, s.num_committed);
  for (const int end = static_cast<int>(task.tokens.size()); s.num_committed < end;) {
    s.plan.clear();
    rule.begin_cycle(1);
    Stats stats;
    const int room = std::min(max_draft_tokens, end - s.num_committed - 1);
    if (room > 0) proposer.propose({{&s, room, &rule}}, stats);
    const int drafted = s.num_drafted();
    const auto answer = task.tokens.begin() + s.num_committed;
    const auto first_wrong = std::mismatch(s.tokens.begin() + s.num_committed, s.tokens.end(), answer).second;
    const int accepted = static_cast<int>(first_wrong - answer);
    rule.observe(s, accepted, *first_wrong);
    s.drop_drafts_after(accepted);
    s.tokens.push_back(*first_wrong);
    s.num_committed += accepted + 1;
    const double seconds = 1e-3 * cost(1 + drafted);
    rule.end_cycle(1 + drafted, accepted + 1, seconds * (1.0 + 0.1 * random()), 0.0);
    run += {accepted + 1.0, 1.0, static_cast<double>(drafted), seconds};
  }
  return run;
}

}  // namespace simulated
