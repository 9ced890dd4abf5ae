#include "quantize/calibrated_quantizer.h"

#include <cmath>

#include "gguf/gguf_file.h"
#include "llama/backend.h"
#include "platform/cores.h"

namespace specdec {
namespace {
constexpr double rounding_work = 4.0, columns_per_work = 40.0, factor_per_work = 60.0;

// The quantizer asks for moments in the order of the file.
CalibrationOptions in_order_of(const std::string& model, CalibrationOptions options) {
  for (const GgufFile& part : GgufFile::read_parts(model)) {
    for (const GgufTensor& tensor : part.tensors) options.order.push_back(tensor.name);
  }
  return options;
}

}  // namespace

CalibratedQuantizer::CalibratedQuantizer(const std::string& model, const std::string& text,
                                         const CalibrationOptions& options, const mxfp6::FeedbackOptions& feedback)
    : calibration_(model, text, in_order_of(model, options)),
      feedback_options_(feedback),
      num_threads_(options.num_threads > 0 ? options.num_threads : default_threads()) {}

// Counts, per weight, rounding to the nearest code five times for three scales, and products with the moments; per
// input, factorizing the moments. The constants were measured with AVX2.
double CalibratedQuantizer::work(const Matrix& matrix) const {
  const auto rows = static_cast<double>(matrix.rows), cols = static_cast<double>(matrix.cols);
  if (matrix.tensor == tensor_ && matrix.index == index_ && moments_ == nullptr) return rows * cols;
  return rows * cols * (rounding_work + cols / columns_per_work) + cols * cols * cols / factor_per_work;
}

std::string CalibratedQuantizer::description() const {
  return "error feedback, " + std::to_string(num_calibration_tokens()) + " calibration tokens";
}

void CalibratedQuantizer::begin(const Matrix& matrix) {
  tensor_ = matrix.tensor;
  index_ = matrix.index;
  const Moments* moments = calibration_.moments(matrix.tensor, matrix.index);
  if (moments == moments_ && moments != nullptr) return;
  moments_ = moments;
  feedback_.reset();
  if (moments == nullptr) return;
  feedback_ =
      std::make_unique<mxfp6::ErrorFeedback>(moments->sums.data(), moments->columns, feedback_options_, num_threads_);
}

std::int64_t CalibratedQuantizer::quantize(const float* x, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                                           std::uint8_t* codes, std::uint8_t* scales) const {
  if (feedback_ == nullptr) return mxfp6::quantize(mxfp6::ScaleRule::mse, x, rows, cols, codes, scales);
  mxfp6::OutputError error;
  const std::int64_t bad = feedback_->quantize(x, rows, codes, scales, &error);
  const std::lock_guard<std::mutex> lock(mutex_);
  errors_[tensor_][{index_, first_row}] = error;
  return bad;
}

double CalibratedQuantizer::output_error(const std::string& tensor) const {
  const auto found = errors_.find(tensor);
  if (found == errors_.end()) return -1.0;
  mxfp6::OutputError all;
  for (const auto& [place, one] : found->second) all.error += one.error, all.weight += one.weight;
  return all.weight > 0.0 ? std::sqrt(std::fmax(all.error, 0.0) / all.weight) : 0.0;
}

}  // namespace specdec
