// Turns a row of logits into the distribution to sample from: llama.cpp's transforms in its default order, in float64.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "sampling/distribution.h"

namespace specdec::sampling {

// Defaults are llama.cpp's. The comments give the valid ranges; validate() checks them.
struct SamplingParams {
  double temperature = 0.8;                          // >= 0, finite; below 1e-5 is greedy
  int top_k = 40;                                    // >= 0; 0: off
  double top_p = 0.95;                               // (0, 1]; 1: off
  double min_p = 0.05;                               // [0, 1]; 0: off
  double repeat_penalty = 1.0;                       // > 0, finite; 1: off
  double frequency_penalty = 0.0;                    // finite; 0: off
  double presence_penalty = 0.0;                     // finite; 0: off
  int penalty_last_n = 64;                           // >= -1; number of latest tokens the penalties count, -1: all
  std::vector<std::pair<Token, double>> logit_bias;  // added to the logit of an id >= 0; finite, or -inf: ban

  bool greedy() const noexcept { return temperature < 1e-5; }
  void validate() const;  // throws std::invalid_argument: parameter, value, valid range
};

// Turns rows of logits into distributions:
//   logit bias -> penalties -> top-k -> top-p -> min-p -> temperature -> softmax
// Ties go to the lower token id everywhere. Holds reusable buffers: one object per sequence, not thread-safe.
//
// logits [size] of float or double: -inf means probability zero; NaN, +inf, and rows with only -inf throw
// std::invalid_argument. history: the tokens so far, the newest last. Bias and history ids >= size are ignored.
class Transforms {
 public:
  explicit Transforms(SamplingParams params);

  const SamplingParams& params() const noexcept { return params_; }

  void apply(const float* logits, int size, const Token* history, int history_size, Distribution& out);
  void apply(const double* logits, int size, const Token* history, int history_size, Distribution& out);

  // The token of the highest logit after bias and penalties. When params().greedy(), apply() gives its one-hot distribution.
  Token argmax(const float* logits, int size, const Token* history, int history_size);
  Token argmax(const double* logits, int size, const Token* history, int history_size);

 private:
  struct Candidate {
    double logit;
    Token token;
  };
  static bool precedes(const Candidate& a, const Candidate& b) noexcept;

  template <class Logit>
  void apply_row(const Logit* logits, int size, const Token* history, int history_size, Distribution& out);
  template <class Logit>
  Token argmax_row(const Logit* logits, int size, const Token* history, int history_size);

  bool adjusts_logits(int history_size) const noexcept;
  template <class Logit>
  const double* adjusted(const Logit* logits, int size, const Token* history, int history_size);
  void penalise(double* logits, int size, const Token* history, int history_size);

  template <class Logit>
  void transform(const Logit* logits, int size, Distribution& out);
  template <class Logit>
  void keep_top_k(const Logit* logits, int size, std::size_t k);
  template <class Logit>
  void keep_likely(const Logit* logits, int size, double max_logit, double total);
  void truncate_to_best(std::size_t count);
  double mass(std::size_t first, std::size_t last, double max_logit) const noexcept;
  void keep_top_p(double max_logit, double total);
  void keep_min_p(double max_logit);
  void drop_lighter(double weight, double max_logit);
  void softmax(double max_logit, Distribution& out);
  template <class Logit>
  void softmax_all(const Logit* logits, int size, double max_logit, Distribution& out);

  SamplingParams params_;
  std::vector<Candidate> candidates_;  // tokens that the transforms so far have kept, in any order
  std::vector<double> part_maxima_;    // maxima of disjoint parts of the row, for top-k
  std::vector<double> adjusted_;       // [size] the row after bias and penalties
  std::vector<int> counts_;            // [size] occurrences in the penalty window; all zero between calls
};

}  // namespace specdec::sampling
