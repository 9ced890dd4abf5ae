// Runs MUL_MAT, MUL_MAT_ID (experts) and GET_ROWS (embeddings) with MXFP6 weights in llama.cpp's graphs on our kernels.
#pragma once

#include <cstddef>
#include <cstdint>

struct ggml_tensor;

namespace ggml::cpu {
class tensor_traits;
}

namespace specdec {

// The implementation for an operation whose weights (src[0]) are MXFP6 tiles, in any buffer; null for any other
// operation.
ggml::cpu::tensor_traits* mxfp6_traits(const ggml_tensor* op);

// Converts a band of rows to Q8_0 (llama/q8_0_copy.h): tiles of all columns -> [mxfp6_rows_multiple] rows.
void mxfp6_band_to_q8_0(const void* tiles, std::int64_t columns, void* rows);
std::size_t q8_0_row_bytes(std::int64_t columns);

bool is_mxfp6(const ggml_tensor* weights);
// values F32 [count, k]: rows of one of the matrices.
void decode_mxfp6_rows(const ggml_tensor* weights, std::int64_t matrix, std::int64_t first, std::int64_t count,
                       float* values);

}  // namespace specdec
