// Makes llama.cpp's own kernels independent of the number of tokens in a pass (docs/losslessness.md).
//
// Two of them choose their algorithm, and so their rounding, by the number of tokens: flash attention (split over the
// cache for one query, tiled from 64 queries on) and the tiled matmul of K- and IQ-quants (from 8 columns on). Both
// have a reference algorithm that treats all queries and columns alike, selected by a global flag. The flag keeps its
// value after an operation, so it is set before every operation that reads it.
#pragma once

struct ggml_tensor;

namespace specdec {

// Whether llama.cpp chooses the operation's algorithm by the number of tokens, unless the flag is set.
bool depends_on_batch(const ggml_tensor* op);

// Whether this is a rotation of heads, used with quantized caches: a fast transform that treats all rows alike.
bool is_hadamard(const ggml_tensor* op);

// Whether to run the operation with the reference algorithm. True for all but rotations, for any number of tokens.
bool wants_reference(const ggml_tensor* op);

}  // namespace specdec
