// Decodes given texts in simulated time, to compare proposers that need no model: bench_replay FILE... Every file holds
// two lines of token ids: a prompt, and the answer that a greedy target would give to it; with a third, a prediction of
// the answer, what the prediction gains is printed. bench/copies/free_drafts.py makes them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "replayed_text.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_proposer.h"

namespace {

using namespace specdec;

// Milliseconds of a target's pass over n tokens.
double mxfp6(int n) { return 26.0 + 1.3 * (n - 1); }           // measured, 1.1B, AVX-512
double per_token(int n) { return 40.0 + 4.8 * (n - 1); }       // each further token costs 12 % of a pass
double f16(int n) { return n == 1 ? 62.0 : 70.0 + 12.0 * n; }  // measured, 1.1B, llama.cpp
constexpr double (*costs[])(int) = {mxfp6, per_token, f16};

using simulated::Run, simulated::Task;

Task task_of(const char* path) {
  std::ifstream file(path);
  Task task;
  std::string line;
  for (int part = 0; part < 3 && std::getline(file, line); ++part) {
    std::istringstream ids(line);
    for (Token id = 0; ids >> id;) (part < 2 ? task.tokens : task.prediction).push_back(id);
    if (part == 0) task.num_prompt = static_cast<int>(task.tokens.size());
  }
  if (task.num_prompt == 0 || static_cast<int>(task.tokens.size()) == task.num_prompt) {
    std::fprintf(stderr, "%s: two lines of token ids are needed\n", path);
    std::exit(1);
  }
  return task;
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
      const Run run = replay(task, cost, proposer, rule);
      worst = std::min(worst, 1e-3 * cost(1) * run.tokens / run.seconds);
      sum += run;
    }
    std::printf(" | %5.2f (%4.2f) %6.2f %4.0f %%", 1e-3 * cost(1) * sum.tokens / sum.seconds, worst,
                sum.tokens / sum.passes, 100.0 * (sum.tokens - sum.passes) / std::max(1.0, sum.drafted));
  }
  std::printf("\n");
}

// Times as fast as without the prediction: the median task, and the slowest. By task the mean of eight disturbed runs.
void print_gains(CopiedTexts texts, const char* name, const std::vector<Task>& tasks) {
  std::printf("%-8s", name);
  for (const auto cost : costs) {
    std::vector<double> with(tasks.size()), without(tasks.size()), gains;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      AdaptiveDraftLength rule, plain_rule;
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        Task task = tasks[i];
        SuffixProposer proposer(nullptr, texts), plain(nullptr, texts);
        with[i] += replay(task, cost, proposer, rule, seed).seconds;
        task.prediction.clear();
        without[i] += replay(task, cost, plain, plain_rule, seed).seconds;
      }
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) gains.push_back(without[i] / with[i]);
    std::sort(gains.begin(), gains.end());
    std::printf(" | %5.2f (%4.2f)", gains[gains.size() / 2], gains.front());
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Task> tasks;
  for (int i = 1; i < argc; ++i) tasks.push_back(task_of(argv[i]));
  if (!tasks.empty() && !tasks.front().prediction.empty()) {
    print_gains(CopiedTexts::predictions, "alone", tasks);
    print_gains(CopiedTexts::all, "suffix", tasks);
    return 0;
  }
  print<NgramProposer>("ngram", tasks);
  print<SuffixProposer>("suffix", tasks);
  return 0;
}
