// Turns the weights of a GGUF model into MXFP6: reads, quantises and writes pieces of tensors on all threads, so that memory
// does not grow with the model. Prints nothing.
//
// A matrix is f32 [rows, cols], codes and scales are as in weights/mxfp6/codec.h. A tensor of 3 dimensions (experts) is a row of
// matrices, each tiled by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "weights/mxfp6/codec.h"

namespace specdec {

// Chooses the codes and scales of a matrix. The default rounds every weight to the nearest code; an error-feedback quantizer
// with calibration activations is another implementation.
class MatrixQuantizer {
 public:
  struct Matrix {
    std::string tensor;
    std::uint64_t index;  // along the third dimension: the expert
    std::int64_t rows, cols;
  };
  virtual ~MatrixQuantizer() = default;

  // For the metadata: what made the weights.
  virtual std::string description() const = 0;

  // Before the first rows of a matrix, on the calling thread: for work that all of its rows share.
  virtual void begin(const Matrix& /*matrix*/) {}

  // Whole bands of the matrix, f32 [rows, cols], rows a multiple of 16, starting at `first_row`, to codes and scales. Called on
  // several threads at once. Returns the index of the first value that is not finite, or -1.
  virtual std::int64_t quantize(const float* x, std::int64_t first_row, std::int64_t rows, std::int64_t cols, std::uint8_t* codes,
                                std::uint8_t* scales) const = 0;

  // After a tensor's last row, on the calling thread: root mean square of the error of its outputs over that of the outputs,
  // for the inputs that the quantizer knows of; negative where it knows of none.
  virtual double output_error(const std::string& /*tensor*/) const { return -1.0; }
};

struct QuantizeProgress {
  const std::string& tensor;
  std::size_t tensor_index, num_tensors;
  std::uint64_t bytes_done, bytes_total;  // of the input
};

struct QuantizeOptions {
  mxfp6::Type type = mxfp6::Type::e2m3;
  mxfp6::ScaleRule scale = mxfp6::ScaleRule::mse;
  std::string keep;     // ECMAScript; tensors in whose name it is found keep their type; empty: none
  int num_threads = 0;  // 0: one per CPU
  bool overwrite = false;
  bool allow_requantize = false;         // also from types below 8 bits
  MatrixQuantizer* quantizer = nullptr;  // null: to nearest, with `scale`; must produce codes of `type`

  // Called often, on the thread that called quantize_gguf; returns whether to go on.
  std::function<bool(const QuantizeProgress&)> progress;
};

struct TensorReport {
  std::string name;
  int from, to;  // ggml's type ids
  std::vector<std::uint64_t> shape;
  std::uint64_t elements, bytes_before, bytes;
  std::string kept_because;     // empty: quantised
  double relative_error = 0.0;  // root mean square of the error over that of the weights; 0 where kept
  double output_error = -1.0;   // the same of the outputs, as MatrixQuantizer::output_error; negative where not known
};

struct QuantizeReport {
  std::vector<TensorReport> tensors;                // in the order of the file
  std::uint64_t input_bytes = 0, output_bytes = 0;  // of the files
  double relative_error = 0.0;                      // over all quantised weights
};

// Why this tensor keeps its type: what llama.cpp's own quantizer leaves alone, and shapes that are not whole tiles.
// Empty for one to quantise.
std::string reason_to_keep(const GgufTensor& tensor, const std::string& architecture);

// `in` may be any part of a split model; `out` is one file. It appears when it is complete: on an exception nothing is left.
// Throws std::invalid_argument, ModelError (the input), Error (the output), Cancelled.
QuantizeReport quantize_gguf(const std::string& in, const std::string& out, const QuantizeOptions& options);

}  // namespace specdec
