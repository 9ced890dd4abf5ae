#include "weights/mxfp6/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "base/index.h"
#include "base/parallel.h"
#include "weights/mxfp6/codec.h"
#include "weights/mxfp6/kernels.h"

namespace specdec::mxfp6 {
namespace {

constexpr int lanes = feedback_lanes;

float power_of_two(int exponent) {  // -126..127
  const std::uint32_t bits = static_cast<std::uint32_t>(exponent + 127) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The largest scale under which every value is a finite float.
constexpr int largest_scale = 254 - max_exponent;

// H = M D M^T in place, from the last column to the first. h: double [n, n], row >= column; becomes M_ij at row j,
// column i < j, and D_j on the diagonal.
void factorize_panel(double* h, std::int64_t n, std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = end - 1; j >= begin; --j) {
    double* row = h + j * n;
    for (std::int64_t l = j + 1; l < end; ++l) {
      const double* later = h + l * n;
      const double factor = later[j] * later[l];
      for (std::int64_t i = 0; i <= j; ++i) row[i] -= factor * later[i];
    }
    const double inverse = 1.0 / row[j];
    for (std::int64_t i = 0; i < j; ++i) row[i] *= inverse;
  }
}

// sums [outputs] += a [outputs, count] times x [count]
void accumulate(const StridedMatrix& a, std::int64_t outputs, const Lanes* x, std::int64_t count, Lanes* sums) {
  calibration_loops().accumulate(a, outputs, x, count, sums);
}

void factorize_matrix(double* h, std::int64_t n, int num_threads) {
  constexpr std::int64_t panel = 32, rows_at_once = 16;
  for (std::int64_t begin = n - panel; begin >= 0; begin -= panel) {
    factorize_panel(h, n, begin, begin + panel);
    for_each_piece(num_threads, begin / rows_at_once, [&](std::int64_t piece) {
      for (std::int64_t r = piece * rows_at_once; r < (piece + 1) * rows_at_once; ++r)
        calibration_loops().eliminate(h, n, begin, begin + panel, r);
    });
  }
}

// A block of up to `lanes` rows, rounded.
struct RoundedBlock {
  Lanes errors[block_size];  // value before rounding minus value after it
  std::uint8_t codes[block_size][lanes];
  std::uint8_t scales[lanes];
  Lanes loss;
};

// Whether squared errors are finite floats: not for weights beyond 2^60, which no model has. Such rows are rounded to
// nearest.
bool has_moderate_size(const float* x, std::int64_t count) {
  return std::all_of(x, x + count, [](float value) { return std::fabs(value) < 0x1p60f; });
}

// Rounds column after column under out.scales. Column j is rounded from targets[j] + sum over i < j of M_ij errors_i,
// errors = own - rounded. In the first rounding, `own` are the weights and the targets include the feedback of earlier
// blocks; in the descent, both are the best values given all other blocks. feedback: M_ij at j * stride + i; pivots:
// D_j.
void round_block(const Lanes* targets, const Lanes* own, const float* feedback, std::int64_t stride,
                 const float* pivots, RoundedBlock& out) {
  Lanes scale, inverse;
  for (int lane = 0; lane < lanes; ++lane) {
    scale[lane] = power_of_two(out.scales[lane] - scale_bias);
    inverse[lane] = power_of_two(scale_bias - out.scales[lane]);
    out.loss[lane] = 0.0f;
  }
  for (int j = 0; j < block_size; ++j) {
    Lanes wanted, scaled;
    std::memcpy(wanted, targets[j], sizeof wanted);
    accumulate({feedback + j * stride, stride, 1}, 1, out.errors, j, &wanted);
    for (int lane = 0; lane < lanes; ++lane) scaled[lane] = wanted[lane] * inverse[lane];
    quantize_block(scale_bias, scaled, out.codes[j]);
    for (int lane = 0; lane < lanes; ++lane) {
      const float value = code_values.entry[out.codes[j][lane]] * scale[lane], miss = wanted[lane] - value;
      out.errors[j][lane] = own[j][lane] - value;
      out.loss[lane] += pivots[j] * (miss * miss);
    }
  }
}

void copy_lane(const RoundedBlock& from, RoundedBlock& to, int lane) {
  for (int j = 0; j < block_size; ++j) {
    to.errors[j][lane] = from.errors[j][lane];
    to.codes[j][lane] = from.codes[j][lane];
  }
  to.scales[lane] = from.scales[lane];
  to.loss[lane] = from.loss[lane];
}

// Tries the scales base + offset and replaces `best` in each lane where the loss is lower.
void try_scales(const Lanes* targets, const Lanes* own, const float* feedback, std::int64_t stride, const float* pivots,
                const std::uint8_t* base, RoundedBlock& best) {
  for (const int offset : {0, -1, 1}) {
    RoundedBlock trial;
    for (int lane = 0; lane < lanes; ++lane) {
      trial.scales[lane] = static_cast<std::uint8_t>(std::clamp(base[lane] + offset, min_scale, largest_scale));
    }
    round_block(targets, own, feedback, stride, pivots, trial);
    for (int lane = 0; lane < lanes; ++lane) {
      if (trial.loss[lane] < best.loss[lane]) copy_lane(trial, best, lane);
    }
  }
}

[[noreturn]] void throw_not_finite() {
  throw std::invalid_argument("error feedback: the moments of the inputs are not finite");
}

}  // namespace

// The state of up to `lanes` rows while they are rounded; columns in the order of order_.
class ErrorFeedback::Rows {
 public:
  Rows(const ErrorFeedback& f, const float* x, std::int64_t count)
      : f_(f),
        count_(count),
        weights_(idx(f.cols_)),
        errors_(weights_.size()),
        gradient_(weights_.size()),
        codes_(weights_.size()),
        scales_(weights_.size() / block_size) {
    for (std::int64_t p = 0; p < f.cols_; ++p) {
      for (int lane = 0; lane < lanes; ++lane) {
        at(weights_, p)[lane] = lane < count ? x[lane * f.cols_ + f.order_[idx(p)]] : 0.0f;
      }
    }
  }

  void round() {
    for (std::int64_t begin = 0; begin < f_.cols_; begin += block_size) round_at(begin);
  }

  void refine() {
    multiply(errors_, gradient_);
    for (int i = 0; i < f_.options_.refinements; ++i) {
      for (std::int64_t begin = 0; begin < f_.cols_; begin += block_size) refine_at(begin);
    }
  }

  void store(std::uint8_t* codes, std::uint8_t* scales) const {
    for (std::int64_t p = 0; p < f_.cols_; ++p) {
      const std::int64_t column = f_.order_[idx(p)];
      for (std::int64_t row = 0; row < count_; ++row) codes[row * f_.cols_ + column] = codes_[idx(p)].lane[row];
    }
    const std::int64_t blocks = f_.cols_ / block_size;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t block = f_.order_[idx(b * block_size)] / block_size;
      for (std::int64_t row = 0; row < count_; ++row) scales[row * blocks + block] = scales_[idx(b)].lane[row];
    }
  }

  OutputError output_error() const {
    Matrix product(weights_.size());
    multiply(weights_, product);
    return {energy(errors_, gradient_), energy(weights_, product)};
  }

 private:
  struct Floats {
    Lanes lane;
  };
  struct Bytes {
    std::uint8_t lane[lanes];
  };
  using Matrix = std::vector<Floats>;  // [cols] of lanes

  static float* at(Matrix& m, std::int64_t p) { return m[idx(p)].lane; }
  static const Lanes* rows(const Matrix& m, std::int64_t p = 0) { return &m[idx(p)].lane; }
  static Lanes* rows(Matrix& m, std::int64_t p = 0) { return &m[idx(p)].lane; }

  void keep(std::int64_t begin, const RoundedBlock& block) {
    for (int j = 0; j < block_size; ++j) std::memcpy(codes_[idx(begin + j)].lane, block.codes[j], lanes);
    std::memcpy(scales_[idx(begin / block_size)].lane, block.scales, lanes);
  }

  void round_at(std::int64_t begin) {
    const float* feedback = f_.feedback_.data() + begin * f_.cols_;
    Lanes targets[block_size];
    std::memcpy(targets, rows(weights_, begin), sizeof targets);
    accumulate({feedback, f_.cols_, 1}, block_size, rows(errors_), begin, targets);
    std::uint8_t base[lanes];
    for (int lane = 0; lane < lanes; ++lane) {
      float block[block_size];
      for (int j = 0; j < block_size; ++j) block[j] = targets[j][lane];
      base[lane] = block_scale(ScaleRule::ocp, block);
    }
    RoundedBlock best = {};
    std::fill_n(best.loss, lanes, std::numeric_limits<float>::infinity());
    std::memcpy(best.scales, base, lanes);
    try_scales(targets, rows(weights_, begin), feedback + begin, f_.cols_, f_.pivots_.data() + begin, base, best);
    std::memcpy(rows(errors_, begin), best.errors, sizeof best.errors);
    keep(begin, best);
  }

  // Given the other blocks, e^T H e = (q - q*)^T H_BB (q - q*) + constant, q* = q + H_BB^-1 gradient_B, gradient = H e.
  void refine_at(std::int64_t begin) {
    const float* inverse = f_.block_inverses_.data() + begin * block_size;
    const float* feedback = f_.block_feedback_.data() + begin * block_size;
    const float* pivots = f_.block_pivots_.data() + begin;
    Lanes targets[block_size], steps[block_size];
    std::memset(steps, 0, sizeof steps);
    accumulate({inverse, block_size, 1}, block_size, rows(gradient_, begin), block_size, steps);
    for (int j = 0; j < block_size; ++j) {
      const float *weight = at(weights_, begin + j), *error = at(errors_, begin + j);
      for (int lane = 0; lane < lanes; ++lane) targets[j][lane] = (weight[lane] - error[lane]) + steps[j][lane];
    }
    RoundedBlock best = present(begin, steps, feedback, pivots);
    std::uint8_t base[lanes];
    std::memcpy(base, best.scales, lanes);
    try_scales(targets, targets, feedback, block_size, pivots, base, best);
    move(begin, best);
    keep(begin, best);
  }

  // The present codes of a block as a rounding of its targets; the errors are the steps.
  RoundedBlock present(std::int64_t begin, const Lanes* steps, const float* feedback, const float* pivots) const {
    RoundedBlock now;
    std::memcpy(now.errors, steps, sizeof now.errors);
    std::memcpy(now.scales, scales_[idx(begin / block_size)].lane, lanes);
    std::fill_n(now.loss, lanes, 0.0f);
    for (int j = 0; j < block_size; ++j) {
      std::memcpy(now.codes[j], codes_[idx(begin + j)].lane, lanes);
      Lanes miss;
      std::memcpy(miss, steps[j], sizeof miss);
      accumulate({feedback + j * block_size, block_size, 1}, 1, steps, j, &miss);
      for (int lane = 0; lane < lanes; ++lane) now.loss[lane] += pivots[j] * (miss[lane] * miss[lane]);
    }
    for (float& loss : now.loss) loss *= 1.0f - 1e-5f;  // ignores improvements within rounding error
    return now;
  }

  // Replaces a block; updates errors and gradients.
  void move(std::int64_t begin, const RoundedBlock& block) {
    Lanes change[block_size];
    bool any = false;
    for (int j = 0; j < block_size; ++j) {
      const float* weight = at(weights_, begin + j);
      float* error = at(errors_, begin + j);
      for (int lane = 0; lane < lanes; ++lane) {
        const float value = code_values.entry[block.codes[j][lane]] * power_of_two(block.scales[lane] - scale_bias);
        const float now = weight[lane] - value;
        change[j][lane] = now - error[lane];
        any = any || change[j][lane] != 0.0f;
        error[lane] = now;
      }
    }
    if (!any) return;
    // The moments are symmetric: uses their rows as columns, so that memory is read sequentially.
    accumulate({f_.moments_.data() + begin * f_.cols_, 1, f_.cols_}, f_.cols_, change, block_size, rows(gradient_));
  }

  // product += H v
  void multiply(const Matrix& v, Matrix& product) const {
    accumulate({f_.moments_.data(), f_.cols_, 1}, f_.cols_, rows(v), f_.cols_, rows(product));
  }

  // Sum over rows of v^T H v without damping, in the units of the given moments. product = H v, with damping.
  double energy(const Matrix& v, const Matrix& product) const {
    double sum = 0.0;
    for (std::int64_t p = 0; p < f_.cols_; ++p) {
      const float *own = *rows(v, p), *with = *rows(product, p);
      for (int lane = 0; lane < lanes; ++lane) {
        const double x = static_cast<double>(own[lane]);
        sum += x * (static_cast<double>(with[lane]) - f_.damping_ * x);
      }
    }
    return sum * f_.unit_;
  }

  const ErrorFeedback& f_;
  std::int64_t count_;
  Matrix weights_, errors_, gradient_;
  std::vector<Bytes> codes_, scales_;
};

ErrorFeedback::ErrorFeedback(const float* moments, std::int64_t cols, const FeedbackOptions& options, int num_threads)
    : cols_(cols), options_(options) {
  if (cols <= 0 || cols % block_size != 0)
    throw std::invalid_argument("error feedback: the number of columns must be a multiple of 32");
  if (!(options.damping > 0.0)) throw std::invalid_argument("error feedback: damping must be > 0");
  choose_order(moments);
  factorize(num_threads);
  invert_blocks();
}

void ErrorFeedback::choose_order(const float* moments) {
  const auto energy = [&](std::int64_t column) { return moments[column * cols_ + column]; };
  const auto block_energy = [&](std::int64_t block) {
    double sum = 0.0;
    for (std::int64_t c = block * block_size; c < (block + 1) * block_size; ++c) sum += static_cast<double>(energy(c));
    return sum;
  };
  for (std::int64_t c = 0; c < cols_; ++c) {  // sorting needs numbers
    if (!std::isfinite(energy(c))) throw_not_finite();
  }
  std::vector<std::int64_t> blocks(idx(cols_ / block_size));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::stable_sort(blocks.begin(), blocks.end(),
                   [&](std::int64_t a, std::int64_t b) { return block_energy(a) > block_energy(b); });
  for (const std::int64_t block : blocks) {
    for (std::int64_t c = block * block_size; c < (block + 1) * block_size; ++c) order_.push_back(c);
    std::stable_sort(order_.end() - block_size, order_.end(),
                     [&](std::int64_t a, std::int64_t b) { return energy(a) > energy(b); });
  }

  double mean = 0.0;
  for (std::int64_t c = 0; c < cols_; ++c) mean += static_cast<double>(energy(c)) / static_cast<double>(cols_);
  unit_ = mean > 0.0 ? mean : 1.0;
  damping_ = mean > 0.0 ? options_.damping : 1.0;
  moments_.resize(idx(cols_ * cols_));
  for (std::int64_t p = 0; p < cols_; ++p) {
    for (std::int64_t r = 0; r <= p; ++r) {
      const std::int64_t a = order_[idx(p)], b = order_[idx(r)];
      const double given = static_cast<double>(moments[std::max(a, b) * cols_ + std::min(a, b)]);
      const auto value = static_cast<float>(given / unit_ + (p == r ? damping_ : 0.0));
      if (!std::isfinite(value)) throw_not_finite();
      moments_[idx(p * cols_ + r)] = moments_[idx(r * cols_ + p)] = value;
    }
  }
}

void ErrorFeedback::factorize(int num_threads) {
  std::vector<double> h(moments_.begin(), moments_.end());
  factorize_matrix(h.data(), cols_, num_threads);
  feedback_.resize(moments_.size());
  pivots_.resize(idx(cols_));
  for (std::int64_t j = 0; j < cols_; ++j) {
    for (std::int64_t i = 0; i < j; ++i) feedback_[idx(j * cols_ + i)] = static_cast<float>(h[idx(j * cols_ + i)]);
    pivots_[idx(j)] = static_cast<float>(h[idx(j * cols_ + j)]);
  }
}

void ErrorFeedback::invert_blocks() {
  constexpr std::int64_t n = block_size;
  block_inverses_.resize(idx(cols_ * n));
  block_feedback_.resize(idx(cols_ * n));
  block_pivots_.resize(idx(cols_));
  for (std::int64_t begin = 0; begin < cols_; begin += n) {
    double h[n * n];
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i)
        h[j * n + i] = static_cast<double>(moments_[idx((begin + j) * cols_ + begin + i)]);
    }
    factorize_panel(h, n, 0, n);
    for (std::int64_t column = 0; column < n; ++column) {  // M D M^T y = unit vector
      double y[n] = {};
      y[column] = 1.0;
      for (std::int64_t i = n - 1; i >= 0; --i) {
        for (std::int64_t j = i + 1; j < n; ++j) y[i] -= h[j * n + i] * y[j];
      }
      for (std::int64_t i = 0; i < n; ++i) y[i] /= h[i * n + i];
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = 0; i < j; ++i) y[j] -= h[j * n + i] * y[i];
      }
      for (std::int64_t i = 0; i < n; ++i) block_inverses_[idx((begin + i) * n + column)] = static_cast<float>(y[i]);
    }
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < j; ++i) block_feedback_[idx((begin + j) * n + i)] = static_cast<float>(h[j * n + i]);
      block_pivots_[idx(begin + j)] = static_cast<float>(h[j * n + j]);
    }
  }
}

std::int64_t ErrorFeedback::quantize(const float* x, std::int64_t rows, std::uint8_t* codes, std::uint8_t* scales,
                                     OutputError* error) const {
  for (std::int64_t i = 0; i < rows * cols_; ++i) {
    if (!std::isfinite(x[i])) return i;
  }
  for (std::int64_t row = 0; row < rows; row += lanes) {
    const std::int64_t count = std::min<std::int64_t>(lanes, rows - row);
    const float* weights = x + row * cols_;
    std::uint8_t *to = codes + row * cols_, *to_scales = scales + row * (cols_ / block_size);
    if (!has_moderate_size(weights, count * cols_)) {
      mxfp6::quantize(ScaleRule::mse, weights, count, cols_, to, to_scales);
      continue;
    }
    Rows group(*this, weights, count);
    group.round();
    group.refine();
    group.store(to, to_scales);
    if (error == nullptr) continue;
    const OutputError one = group.output_error();
    error->error += one.error;
    error->weight += one.weight;
  }
  return -1;
}

}  // namespace specdec::mxfp6
