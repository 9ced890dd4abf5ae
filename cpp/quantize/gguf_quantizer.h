// Quantizes the weights of a GGUF model to MXFP6, or to a mixture of stock types of few bits for a draft: reads,
// quantizes and writes pieces of tensors on all threads, so that memory use does not depend on the size of the model.
// Prints nothing.
//
// A matrix is f32 [rows, cols]; codes and scales are as in weights/mxfp6/codec.h. A tensor of 3 dimensions (experts) is
// a sequence of matrices, each tiled separately.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "weights/mxfp6/codec.h"

namespace specdec {

// Chooses the codes and scales of a matrix. The default rounds every weight to the nearest code; an error-feedback
// quantizer with calibration activations is another implementation.
class MatrixQuantizer {
 public:
  struct Matrix {
    std::string tensor;
    std::uint64_t index;  // along the third dimension: the expert
    std::int64_t rows, cols;
  };
  virtual ~MatrixQuantizer() = default;

  // The cost of a matrix in units of rounding one weight to the nearest code; measures progress. More accurate after
  // begin() was called for the matrix.
  virtual double work(const Matrix& matrix) const {
    return static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
  }

  // Describes how the weights were quantized, for the metadata.
  virtual std::string description() const = 0;

  // Called before the first rows of a matrix, on the thread that called quantize_gguf, for work shared by all rows.
  virtual void begin(const Matrix& /*matrix*/) {}

  // Quantizes whole bands of the matrix, f32 [rows, cols] from `first_row` on, rows a multiple of 16, to codes and
  // scales. Called on several threads at once. Returns the index of the first value that is not finite, or -1.
  virtual std::int64_t quantize(const float* x, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                                std::uint8_t* codes, std::uint8_t* scales) const = 0;

  // Called after a tensor's last row, on the thread that called quantize_gguf: the RMS error of its outputs relative to
  // the RMS of the outputs, on the calibration inputs; negative without such inputs.
  virtual double output_error(const std::string& /*tensor*/) const { return -1.0; }
};

struct QuantizeProgress {
  const std::string& tensor;
  std::size_t tensor_index, num_tensors;
  double done;  // share of the work, 0 to 1
};

// q3: Q3_K to Q5_K; q2: Q2_K to Q4_K (base/weight_mixture.h); the output matrix Q6_K.
enum class WrittenTypes { mxfp6, q3, q2 };

struct QuantizeOptions {
  WrittenTypes types = WrittenTypes::mxfp6;
  mxfp6::ScaleRule scale = mxfp6::ScaleRule::mse;
  std::string keep;     // ECMAScript regular expression; tensors whose name matches keep their type; empty: none
  int num_threads = 0;  // 0: one per CPU
  bool overwrite = false;
  bool allow_requantize = false;         // also quantizes types with fewer than 8 bits
  MatrixQuantizer* quantizer = nullptr;  // null: rounds to nearest with `scale`

  // Called often, on the thread that called quantize_gguf; returns whether to continue.
  std::function<bool(const QuantizeProgress&)> progress;
};

struct TensorReport {
  std::string name;
  int from, to;  // ggml's type ids
  std::vector<std::uint64_t> shape;
  std::uint64_t elements, bytes_before, bytes;
  std::string kept_because;     // empty: quantized
  double relative_error = 0.0;  // RMS error relative to the RMS of the weights; 0 if kept
  double output_error = -1.0;   // the same for the outputs, from MatrixQuantizer::output_error; negative if unknown
};

struct QuantizeReport {
  std::vector<TensorReport> tensors;                // in the order of the file
  std::uint64_t input_bytes = 0, output_bytes = 0;  // of the files
  double relative_error = 0.0;                      // over all quantized weights
};

// Why this tensor is not quantized to MXFP6: llama.cpp's own quantizer keeps it, too; its shape is not whole tiles; or
// it is an embedding with fewer bits, whose rows are only looked up. Empty if it is quantized.
std::string reason_to_keep(const GgufTensor& tensor, const std::vector<GgufFile>& parts);

// `in` may be any part of a split model; `out` is one file, created when complete. An exception leaves no file. Throws
// std::invalid_argument, ModelError (the input), Error (the output), Cancelled.
QuantizeReport quantize_gguf(const std::string& in, const std::string& out, const QuantizeOptions& options);

}  // namespace specdec
