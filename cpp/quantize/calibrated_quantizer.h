// The MatrixQuantizer of `specdec quantize --calibrate`: error feedback with calibration activations.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "quantize/calibration.h"
#include "quantize/gguf_quantizer.h"
#include "weights/mxfp6/error_feedback.h"

namespace specdec {

class CalibratedQuantizer final : public MatrixQuantizer {
 public:
  CalibratedQuantizer(const std::string& model, const std::string& text, const CalibrationOptions& options,
                      const mxfp6::FeedbackOptions& feedback = {});

  std::size_t num_calibration_tokens() const { return calibration_.num_tokens(); }

  double work(const Matrix& matrix) const override;
  std::string description() const override;
  void begin(const Matrix& matrix) override;
  std::int64_t quantize(const float* x, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                        std::uint8_t* codes, std::uint8_t* scales) const override;

  // RMS error of a tensor's outputs, relative to the RMS of the outputs, on the calibration text. Negative if the model
  // does not multiply with the tensor; its weights are then rounded to nearest.
  double output_error(const std::string& tensor) const override;

 private:
  Calibration calibration_;
  mxfp6::FeedbackOptions feedback_options_;
  int num_threads_;
  std::unique_ptr<mxfp6::ErrorFeedback> feedback_;  // of the current matrix; null: round to nearest
  const Moments* moments_ = nullptr;                // the moments that feedback_ was made from
  std::string tensor_;
  std::uint64_t index_ = 0;

  mutable std::mutex mutex_;
  // Errors by tensor, then by matrix and first row, so that the sum does not depend on the order of threads.
  mutable std::map<std::string, std::map<std::pair<std::uint64_t, std::int64_t>, mxfp6::OutputError>> errors_;
};

}  // namespace specdec
