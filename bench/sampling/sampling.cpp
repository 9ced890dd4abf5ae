// Time of sampling per row of logits: bench_sampling [vocabulary = 152064] [rows = 64]. Medians in microseconds.
//
// Rows resemble those of a language model: a few tokens far above a broad distribution. A cycle with K drafts needs up
// to K + 1 rows of the target and K of the draft, and one log_softmax per token.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "sampling/log_softmax.h"
#include "sampling/transforms.h"

using namespace specdec::sampling;

namespace {

std::vector<std::vector<float>> make_rows(int vocabulary, int count) {
  std::mt19937 engine(1);
  std::normal_distribution<float> bulk(-3.0f, 2.5f);
  std::vector<std::vector<float>> rows(static_cast<std::size_t>(count),
                                       std::vector<float>(static_cast<std::size_t>(vocabulary)));
  for (auto& row : rows) {
    for (float& logit : row) logit = bulk(engine);
    for (int i = 0; i < 20; ++i) row[engine() % row.size()] = 16.0f - static_cast<float>(i);
  }
  return rows;
}

template <class Work>
void time_rows(const char* name, const std::vector<std::vector<float>>& rows, Work work) {
  std::vector<double> microseconds;
  for (int round = 0; round < 5; ++round) {
    for (const auto& row : rows) {
      const auto start = std::chrono::steady_clock::now();
      work(row.data(), static_cast<int>(row.size()));
      microseconds.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
  }
  std::nth_element(microseconds.begin(), microseconds.begin() + static_cast<std::ptrdiff_t>(microseconds.size() / 2),
                   microseconds.end());
  std::printf("| %s | %.0f |\n", name, microseconds[microseconds.size() / 2]);
}

SamplingParams params_of(double temperature, int top_k, double top_p, double min_p) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}

}  // namespace

int main(int argc, char** argv) {
  const int vocabulary = argc > 1 ? std::atoi(argv[1]) : 152064, count = argc > 2 ? std::atoi(argv[2]) : 64;
  if (vocabulary < 20 || count < 1)
    return std::fprintf(stderr, "bad arguments; see the top of bench/sampling/sampling.cpp\n"), 2;
  const auto rows = make_rows(vocabulary, count);
  std::printf("| row of %d logits | microseconds |\n|---|---|\n", vocabulary);

  Distribution out;
  const auto time_transforms = [&](const char* name, const SamplingParams& params) {
    Transforms transforms(params);
    time_rows(name, rows, [&](const float* logits, int size) { transforms.apply(logits, size, nullptr, 0, out); });
  };
  time_transforms("greedy", params_of(0.0, 0, 1.0, 0.0));
  time_transforms("top-k 40, top-p 0.95, min-p 0.05 (default)", params_of(0.8, 40, 0.95, 0.05));
  time_transforms("top-k 1000", params_of(0.8, 1000, 1.0, 0.0));
  time_transforms("top-p 0.95", params_of(0.8, 0, 0.95, 0.0));
  time_transforms("min-p 0.05", params_of(0.8, 0, 1.0, 0.05));
  time_transforms("temperature alone", params_of(0.8, 0, 1.0, 0.0));
  double sum = 0.0;
  time_rows("log_softmax of one token", rows,
            [&](const float* logits, int size) { sum += log_softmax(logits, size, 0); });
  return std::isnan(sum) ? 1 : 0;
}
