// Sums of x x^T over the inputs x of a matrix.
#pragma once

#include <cstdint>

namespace specdec {

// h [k, k] += sum over n of x x^T, where row >= column (and a few places next to the diagonal). x: f32 [n, k], k a
// multiple of 32. Every place is summed over n in order and then added, so h is the same for any number of threads and
// any instruction set.
void add_moments(const float* x, std::int64_t n, std::int64_t k, float* h, int num_threads);

}  // namespace specdec
