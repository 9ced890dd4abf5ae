// Collects the second moments H = sum over tokens of x x^T of the inputs x of a model's matrices while it reads a text,
// for the error-feedback quantizer. Matrices with the same input (query, key and value; gate and up) share H.
//
// H of n columns takes 4 n^2 bytes, too much for all layers of a large model. So the text is read several times: each
// time, the moments of as many inputs as fit into `memory` are collected, in the order in which they will be asked for,
// and reading stops after the last of them. For a 7B llama (32 layers, 4096 and 11008 columns) a layer's moments take
// 0.7 GB; with the default 4 GiB the text is read 6 times, on average through half of the layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace specdec {

struct CalibrationProgress {
  std::size_t tokens_done, tokens_total;  // in the current reading of the text
  std::size_t inputs;                     // number of inputs whose moments it collects
};

struct CalibrationOptions {
  int window = 512;            // tokens per window, read with an empty cache and with BOS first if the model uses one
  std::size_t max_tokens = 0;  // of the text; 0: all
  int num_threads = 0;         // 0: one per physical core
  std::uint64_t memory = std::uint64_t{4} << 30;  // bytes of moments at a time; those of one input are always held
  std::vector<std::string> order;  // tensors, in the order in which their moments will be asked for; empty: the model's

  // Called often while the model reads; returns whether to continue.
  std::function<bool(const CalibrationProgress&)> progress;
};

// Moments of the inputs of one matrix.
struct Moments {
  std::int64_t columns = 0;
  std::size_t tokens = 0;   // number of tokens multiplied with the matrix; for an expert, only those routed to it
  std::vector<float> sums;  // [columns, columns], row >= column
};

class Calibration {
 public:
  // Loads the model. Throws ModelError, std::invalid_argument (a text of less than a window).
  Calibration(const std::string& model, const std::string& text, const CalibrationOptions& options);
  ~Calibration();

  // The moments of matrix `index` (along the third dimension: the expert) of a weight tensor. Null if the model does
  // not multiply with it. Valid until the next call. Reads the text if necessary; throws ModelError, Cancelled.
  const Moments* moments(const std::string& tensor, std::uint64_t index);

  std::size_t num_tokens() const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace specdec
