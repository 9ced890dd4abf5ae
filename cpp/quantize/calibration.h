// What goes into a model's matrices while it reads a text: the second moments H = sum over tokens of x x^T of every weight's
// inputs, for the error-feedback quantizer. Matrices with the same input (query, key and value; gate and up) share theirs.
//
// H of n columns takes 4 n^2 bytes, for a large model too much to hold for all layers at once. So the text is read as often
// as it takes: each time the moments of as many inputs are collected as fit into `memory`, in the order in which the model
// uses them, and the model stops after the last one of them. For a 7B llama (32 layers, 4096 and 11008 columns) a layer's
// moments take 0.7 GB; with the default 4 GiB the text is read 6 times, each time on average half of the layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace specdec {

struct CalibrationProgress {
  std::size_t tokens_done, tokens_total;  // of this reading of the text
  std::size_t inputs;                     // whose moments this reading collects
};

struct CalibrationOptions {
  int window = 512;            // tokens that are read with one another in view, each window with BOS first if the model uses one
  std::size_t max_tokens = 0;  // of the text; 0: all
  int num_threads = 0;         // 0: one per physical core
  std::uint64_t memory = std::uint64_t{4} << 30;  // bytes of moments at a time; one input's are always held

  // Called often while the model reads; returns whether to go on.
  std::function<bool(const CalibrationProgress&)> progress;
};

// Moments of the inputs of one matrix.
struct Moments {
  std::int64_t columns = 0;
  std::size_t tokens = 0;   // that were multiplied with the matrix; of an expert only its own
  std::vector<float> sums;  // [columns, columns], row >= column
};

class Calibration {
 public:
  // Loads the model. Throws ModelError, std::invalid_argument (a text of less than a window).
  Calibration(const std::string& model, const std::string& text, const CalibrationOptions& options);
  ~Calibration();

  // Of matrix `index` (along the third dimension: the expert) of a weight tensor. Null when the model never multiplies with
  // it. Valid until the next call. Reads the text when they are not at hand; throws ModelError, Cancelled.
  const Moments* moments(const std::string& tensor, std::uint64_t index);

  std::size_t num_tokens() const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace specdec
