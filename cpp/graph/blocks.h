// Runs MUL_MAT and MUL_MAT_ID (experts) with stock quantized weights (Q4_K, Q8_0, ...) in llama.cpp's graphs on our
// kernels.
#pragma once

#include <cstdint>

struct ggml_tensor;

namespace ggml::cpu {
class tensor_traits;
}

namespace specdec {

struct CachedExperts;
struct StreamedMatrix;

// Whether our kernels multiply weights of this type (a ggml_type). If so, rounding does not depend on the number of
// columns.
bool is_block_type(int ggml_type);
bool has_our_products(const ggml_tensor* weights);  // of block types, MXFP6, F16 and BF16

// values [count][columns] = rows of a matrix in this machine's memory, as F32.
bool can_decode_rows(const ggml_tensor* weights);
void decode_rows(const ggml_tensor* weights, std::int64_t first, std::int64_t count, float* values);

// The implementation for a product of such a matrix, or of one with tiles (src[0], in any buffer), and F32 activations;
// null for any other operation. The choice depends only on types, strides and tiles, not on the number of tokens.
ggml::cpu::tensor_traits* block_traits(const ggml_tensor* op);

// Copies of one or several matrices in tiles (weights/blocks/tiles.h). Products read `data` or what is read from the
// disk instead of the weights. A copy of the same type changes no bit; a copy of another type is rounded. With signs
// (only a draft's output matrix has them), a product reads the signs first and then the best rows of `data` or of the
// weights (best_rows.h).
struct BlockTiles {
  int type;                                  // of data, a ggml_type; without data, the weights' type
  const std::uint8_t* data;                  // or null
  const std::uint8_t* signs = nullptr;       // as Q1_0
  const StreamedMatrix* streamed = nullptr;  // instead of data: one matrix in parts; of block types as tiles, of others
                                             // as in the file
  const CachedExperts* experts = nullptr;    // instead of data: several matrices, in the same layout
};
bool can_have_tiles(const ggml_tensor* weights,
                    int type);  // whether the weights can have a copy of this type; views cannot use it
int tile_layout();              // tiles with another layout cannot be used
std::int64_t num_tiles(const ggml_tensor* weights);
std::uint64_t tiles_bytes(const ggml_tensor* weights, int type);
std::uint64_t bytes_of_tile(const ggml_tensor* weights, int type);
// Writes tiles [first, last). May throw std::bad_alloc if the type is not that of the weights.
void write_tiles(const ggml_tensor* weights, int type, std::int64_t first, std::int64_t last, std::uint8_t* to);
bool finds_best_rows(const ggml_tensor* weights);               // whether signs save time
void use_tiles(ggml_tensor* weights, const BlockTiles* tiles);  // from now on; the caller keeps the tiles
const BlockTiles* tiles_of(const ggml_tensor* weights);         // or null

}  // namespace specdec
