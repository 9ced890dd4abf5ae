// What passes of a model cost, learnt while they run.
#pragma once

#include <array>
#include <cstddef>

namespace specdec {

// Seconds by number of tokens in a pass: a Kalman filter over the sizes measured so far. The logarithm of the cost walks at
// random from size to size: the farther apart two sizes are, the less one says of the other, wherever the steps of the kernels
// are. All drift together with the machine's speed. So a size measured once leans on its neighbours, one measured often stands
// for itself, and how little is known of a size is known, too. It remembers 64 sizes, and allocates nothing.
class PassCosts {
 public:
  void record(int num_tokens, double seconds);
  bool empty() const { return num_sizes_ == 0; }
  double seconds(int num_tokens) const;  // of an ordinary pass; never falls with num_tokens; 0 if empty
  double doubt(int num_tokens) const;    // standard deviation of log seconds(num_tokens), beside the size that is known best
  int longest() const;                   // that is remembered

 private:
  // Any size as seen from measured ones: (1 - share) * below + share * above + offset, known but for `variance`.
  struct View {
    std::size_t below, above;
    double share, offset, variance;
  };
  View view(int num_tokens) const;
  double mean(const View& v) const { return (1.0 - v.share) * mean_[v.below] + v.share * mean_[v.above] + v.offset; }
  double covariance(const View& v, std::size_t size) const;
  double covariance(const View& v, const View& w) const;
  std::size_t find_or_insert(int num_tokens);

  static constexpr std::size_t max_sizes = 64;
  template <class T>
  using PerSize = std::array<T, max_sizes>;

  std::size_t num_sizes_ = 0;
  PerSize<int> sizes_{};                    // in the order that they were first measured in
  PerSize<long> last_{};                    // pass that measured each last
  PerSize<double> mean_{};                  // of log seconds
  PerSize<PerSize<double>> covariance_{};
  long num_passes_ = 0;
  double noise_ = 0.1;                           // mean deviation of log seconds from what they should be
};

}  // namespace specdec
