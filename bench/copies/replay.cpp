// Decodes given texts in simulated time, to compare proposers that need no model: bench_replay FILE... Every file holds
// two lines of token ids: a prompt, and the answer that a greedy target would give to it. bench/copies/free_drafts.py
// makes them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "simulated_decoding.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_proposer.h"

namespace {

using namespace specdec;

// Milliseconds of a target's pass over n tokens.
double mxfp6(int n) { return 26.0 + 1.3 * (n - 1); }           // measured, 1.1B, AVX-512
double per_token(int n) { return 40.0 + 4.8 * (n - 1); }       // each further token costs 12 % of a pass
double f16(int n) { return n == 1 ? 62.0 : 70.0 + 12.0 * n; }  // measured, 1.1B, llama.cpp
constexpr double (*costs[])(int) = {mxfp6, per_token, f16};

struct Task {
  std::vector<Token> tokens;  // prompt and answer
  int num_prompt = 0;
};

Task task_of(const char* path) {
  std::ifstream file(path);
  Task task;
  std::string line;
  for (int part = 0; part < 2 && std::getline(file, line); ++part) {
    std::istringstream ids(line);
    for (Token id = 0; ids >> id;) task.tokens.push_back(id);
    if (part == 0) task.num_prompt = static_cast<int>(task.tokens.size());
  }
  if (task.num_prompt == 0 || static_cast<int>(task.tokens.size()) == task.num_prompt) {
    std::fprintf(stderr, "%s: two lines of token ids are needed\n", path);
    std::exit(1);
  }
  return task;
}

struct Run {
  double tokens = 0.0, passes = 0.0, drafted = 0.0, seconds = 0.0;
  void operator+=(const Run& other) {
    tokens += other.tokens, passes += other.passes, drafted += other.drafted, seconds += other.seconds;
  }
};

// Passes are disturbed by 5 % on average as the rule sees them; the result has their undisturbed times.
Run decode(const Task& task, double (*cost)(int), Proposer& proposer, AdaptiveDraftLength& rule) {
  sampling::SamplingParams greedy;
  greedy.temperature = 0.0;
  Sequence s(0, greedy, std::make_unique<sampling::PhiloxUniforms>(1, 0));
  s.tokens.assign(task.tokens.begin(), task.tokens.begin() + task.num_prompt);
  s.num_committed = task.num_prompt;
  s.num_draft_tokens = auto_draft_tokens;
  simulated::Random random(1);
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

template <class SomeProposer>
void print(const char* name, const std::vector<Task>& tasks) {
  std::printf("%-8s", name);
  for (const auto cost : costs) {
    AdaptiveDraftLength rule;  // learns from task to task, as in a Generator; the proposer is new for each
    Run sum;
    double worst = 1e9;
    for (const Task& task : tasks) {
      SomeProposer proposer;
      const Run run = decode(task, cost, proposer, rule);
      worst = std::min(worst, 1e-3 * cost(1) * run.tokens / run.seconds);
      sum += run;
    }
    std::printf(" | %5.2f (%4.2f) %6.2f %4.0f %%", 1e-3 * cost(1) * sum.tokens / sum.seconds, worst,
                sum.tokens / sum.passes, 100.0 * (sum.tokens - sum.passes) / std::max(1.0, sum.drafted));
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Task> tasks;
  for (int i = 1; i < argc; ++i) tasks.push_back(task_of(argv[i]));
  print<NgramProposer>("ngram", tasks);
  print<SuffixProposer>("suffix", tasks);
  return 0;
}
