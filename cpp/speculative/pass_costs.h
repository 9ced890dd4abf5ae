// What passes of a model cost, learnt while they run.
#pragma once

#include <array>
#include <cstddef>

namespace specdec {

// Seconds by number of tokens in a pass: a Kalman filter over the sizes measured so far. The logarithm of the cost walks at
// random from size to size: the farther apart two sizes are, the less one says of the other, wherever the steps of the kernels
// are. All drift together with the machine's speed. So a size measured once leans on its neighbours, one measured often stands
// for itself, and how little is known of a size is known, too. A pass of another size than the one before takes longer by one
// and the same time (its graph is built anew), which is learnt with the rest. It remembers 63 sizes, and allocates nothing.
class PassCosts {
 public:
  void record(int num_tokens, double seconds);
  bool empty() const { return latest_ == 0; }
  int latest() const { return latest_; }                         // size recorded; 0 if empty
  double change() const { return state_[change_slot] * unit_; }  // seconds that a pass of another size takes longer
  double seconds(int num_tokens) const;                          // after one of the same size; never falls with num_tokens; 0 if empty
  double doubt(int num_tokens) const;  // standard deviation of log seconds(num_tokens), beside the size that is known best
  int longest() const;                 // that is remembered

 private:
  // Any size as seen from measured ones: (1 - share) * below + share * above + offset, known but for `variance`.
  struct View {
    std::size_t below, above;
    double share, offset, variance;
  };
  View view(int num_tokens) const;
  double log_seconds(const View& v) const { return (1.0 - v.share) * state_[v.below] + v.share * state_[v.above] + v.offset; }
  double covariance(const View& v, std::size_t slot) const;
  double covariance(const View& v, const View& w) const;
  std::size_t find_or_insert(int num_tokens);

  // The filter's state: what a change takes, in a unit, then the logarithm of the seconds of every size.
  static constexpr std::size_t change_slot = 0, first_size = 1, max_slots = 64;
  template <class T>
  using PerSlot = std::array<T, max_slots>;

  std::size_t num_slots_ = first_size;
  PerSlot<int> sizes_{};  // in the order that they were first measured in
  PerSlot<long> last_{};  // pass that measured each last
  PerSlot<double> state_{};
  PerSlot<PerSlot<double>> covariance_{};
  double unit_ = 0.0;  // seconds
  int latest_ = 0;
  long num_passes_ = 0;
  double noise_ = 0.1;  // mean deviation of log seconds from what they should be
};

}  // namespace specdec
