// Rounds the rows of a matrix to minimise the error of its outputs rather than that of its weights: error feedback with
// the second moments of the inputs (GPTQ, Frantar et al., arXiv 2210.17323, as LDLQ, Chee et al., arXiv 2307.13304,
// section 3).
//
// For a row w, its rounded values q and inputs x with moments H = sum of x x^T, the squared error of the outputs is
// e^T H e, e = w - q. With H = M D M^T (M unit upper triangular, D diagonal) that is
//   sum over columns j of D_j (e_j + sum over i < j of M_ij e_i)^2,
// so columns are rounded in order, each after adding the feedback sum over i < j of M_ij e_i of the columns before it.
// A block's scale is the one of three neighbours with the least such sum. Then follow `refinements` rounds of
// block-wise descent: each block, scale included, is rounded again to the best values given all others; e^T H e never
// grows. Blocks with more input energy come first, and so do columns within a block, because later columns compensate
// earlier ones.
#pragma once

#include <cstdint>
#include <vector>

#include "weights/mxfp6/format.h"

namespace specdec::mxfp6 {

struct FeedbackOptions {
  double damping = 0.1;  // added to H's diagonal, in units of its mean: with few samples, single columns are uncertain
  int refinements = 4;
};

// e^T H e and w^T H w, H as given (no damping), summed over rows.
struct OutputError {
  double error = 0.0, weight = 0.0;
};

class ErrorFeedback {
 public:
  // moments: f32 [cols, cols], symmetric (only row >= column is read), cols a multiple of 32. Uses cols^2 * 8 bytes,
  // twice that during construction. Throws std::invalid_argument for moments that are not finite.
  ErrorFeedback(const float* moments, std::int64_t cols, const FeedbackOptions& options, int num_threads);

  // f32 [rows, cols] -> codes, scales, with the return value of codec.h's quantize. Rows are independent of each other,
  // so threads can share them. Allocates about cols * 1 KiB.
  std::int64_t quantize(const float* x, std::int64_t rows, std::uint8_t* codes, std::uint8_t* scales,
                        OutputError* error = nullptr) const;

 private:
  class Rows;

  void choose_order(const float* moments);
  void factorize(int num_threads);
  void invert_blocks();

  std::int64_t cols_;
  FeedbackOptions options_;
  std::vector<std::int64_t> order_;  // [cols] the column at each place in the order; blocks stay together
  double unit_ = 1.0;                // the mean of the diagonal: moments below are in units of it
  double damping_ = 0.0;
  std::vector<float> moments_;   // [cols, cols] of places, both triangles, damped
  std::vector<float> feedback_;  // [cols, cols] row j, i < j: M_ij
  std::vector<float> pivots_;    // [cols] D_j
  // For the blocks along the diagonal: [cols / 32, 32, 32] H_BB^-1 and M of H_BB (row j, i < j: M_ij), [cols] its D.
  std::vector<float> block_inverses_, block_feedback_, block_pivots_;
};

}  // namespace specdec::mxfp6
