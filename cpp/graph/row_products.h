// Products of some rows of a matrix with one vector, outside llama.cpp's graphs, on the kernels of weights/floats.
#pragma once

#include <cstdint>
#include <vector>

struct ggml_tensor;

namespace specdec {

class RowProducts {
 public:
  // x [columns]. The matrix, for which can_decode_rows() must be true, must outlive this.
  RowProducts(const ggml_tensor* weights, const float* x);

  // out [count] = rows [first, first + count) times x.
  void multiply(std::int64_t first, std::int64_t count, float* out);

 private:
  const ggml_tensor* weights_;
  std::vector<float> panel_;    // x as the kernel reads it
  std::vector<float> decoded_;  // rows of types that the kernel does not read
};

}  // namespace specdec
