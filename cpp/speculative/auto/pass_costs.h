// Learns how long a model's passes take by their size, while they run.
#pragma once

#include <array>
#include <cstddef>

#include "speculative/auto/auto_knowledge.h"
#include "speculative/auto/auto_options.h"

namespace specdec {

// Seconds by number of tokens in a pass: a Kalman filter over the sizes measured so far. The prior for the logarithm of
// the cost is a random walk over log(size): the farther apart two sizes are, the less one says about the other. All
// sizes drift together with the machine's speed. So the estimate of a size measured once leans on its neighbours, the
// estimate of a size measured often does not, and every estimate has a variance. A pass whose size differs from the one
// before takes longer by a constant (its graph is rebuilt), which is also learnt. Remembers 63 sizes; does not
// allocate.
class PassCosts {
 public:
  explicit PassCosts(const AutoOptions::Costs& options = {}) : options_(options) {}

  void record(int num_tokens, double seconds);
  bool empty() const { return latest_ == 0; }
  int latest() const { return latest_; }  // the size recorded last; 0 if empty
  // Extra seconds of a pass whose size differs from that of the pass before.
  double change() const { return state_[change_slot] * unit_; }
  double seconds(int num_tokens) const;  // of a pass after one of equal size; monotonic; 0 if empty
  double doubt(int num_tokens) const;  // standard deviation of log seconds(num_tokens), relative to the best known size
  AutoKnowledge::Costs knowledge() const;
  // To be called before the first pass. The machine may be faster or slower than it was; the first passes show this for
  // all sizes.
  void begin_with(const AutoKnowledge::Costs& known);
  int longest() const;  // the largest remembered size

 private:
  // A size interpolated from measured ones: (1 - share) * below + share * above + offset, with variance `variance`.
  struct View {
    std::size_t below, above;
    double share, offset, variance;
  };
  View view(int num_tokens) const;
  double first_guess(int num_tokens) const;
  double log_seconds(const View& v) const {
    return (1.0 - v.share) * state_[v.below] + v.share * state_[v.above] + v.offset;
  }
  double covariance(const View& v, std::size_t slot) const;
  double covariance(const View& v, const View& w) const;
  std::size_t find_or_insert(int num_tokens);

  // The filter's state: slot 0 holds the extra time of a change, in multiples of unit_; the other slots hold log
  // seconds by size.
  static constexpr std::size_t change_slot = 0, first_size = 1, max_slots = 64;
  template <class T>
  using PerSlot = std::array<T, max_slots>;

  static constexpr double least_noise = 0.01;  // so that a few equal measurements are not trusted without limit
  AutoOptions::Costs options_;
  std::size_t num_slots_ = first_size;
  PerSlot<int> sizes_{};  // in the order of first measurement
  PerSlot<long> last_{};  // number of the pass that measured the size last
  PerSlot<double> state_{};
  PerSlot<PerSlot<double>> covariance_{};
  double unit_ = 0.0;  // seconds
  int latest_ = 0;
  long num_passes_ = 0;
  double noise_ = options_.first_noise;  // mean deviation of log seconds from the prediction
};

}  // namespace specdec
