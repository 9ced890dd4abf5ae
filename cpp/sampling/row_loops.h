// The loops over whole rows of logits, which compilers vectorise: one table of functions per instruction set
// (base/isa.h). All tables give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "base/index.h"

namespace specdec::sampling {

// The block size of next_block_above.
constexpr int logits_per_block = 64;
// How many lanes maxima folds at a time.
constexpr int maxima_lanes = 16;

struct Weights {
  double total;       // their sum
  bool all_positive;  // no weight is 0
};

template <class Logit>
struct LogitLoops {
  // The start of the first whole block, at begin + n * logits_per_block, that has a logit above the floor (or NaN). If
  // there is none, the start of the partial block at the end.
  std::int32_t (*next_block_above)(const Logit* logits, std::int32_t begin, int size, Logit floor) noexcept;

  // out[count]: each is the maximum of `depth` logits that lie maxima_lanes apart. count is a multiple of maxima_lanes.
  // NaN is skipped. Returns whether no logit is NaN or +inf.
  bool (*maxima)(const Logit* logits, int depth, double* out, std::size_t count) noexcept;

  // Sum of exp(logit - max_logit).
  double (*mass)(const Logit* logits, int size, double max_logit) noexcept;

  // out[size]: exp((logit - max_logit) / temperature), 0 if the exponent is below -708.
  Weights (*weights)(const Logit* logits, int size, double max_logit, double temperature, double* out) noexcept;
};

struct RoughMass {
  float max;
  double total;  // of exp(logit - max), whose terms are floats
};

struct RowLoops {
  const char* name;
  CpuFeatures needs;

  LogitLoops<float> f32;
  LogitLoops<double> f64;

  // weights[i] = exp(weights[i]) for weights <= 0; returns their sum.
  double (*exponentials)(double* weights, std::size_t count) noexcept;
  void (*divide)(double* weights, std::size_t count, double total) noexcept;

  RoughMass (*rough_mass)(const float* logits, int size) noexcept;
};

extern const RowLoops row_loops_scalar;
extern const RowLoops row_loops_avx2, row_loops_avx512;  // x86 builds only

}  // namespace specdec::sampling
