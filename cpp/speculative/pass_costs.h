// What passes of a model cost, learnt while they run.
#pragma once

#include <cstddef>
#include <vector>

namespace specdec {

// Seconds by number of tokens in a pass: a Kalman filter over the sizes measured so far. The logarithm of the cost walks at
// random from size to size: the farther apart two sizes are, the less one says of the other, wherever the steps of the kernels
// are. All drift together with the machine's speed. So a size measured once leans on its neighbours, one measured often stands
// for itself, and how little is known of a size is known, too.
class PassCosts {
 public:
  void record(int num_tokens, double seconds);
  bool empty() const { return sizes_.empty(); }
  double seconds(int num_tokens) const;  // of an ordinary pass; never falls with num_tokens; 0 if empty
  double doubt(int num_tokens) const;    // standard deviation of log seconds(num_tokens), beside the size that is known best
  int longest() const { return empty() ? 0 : sizes_.back(); }

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

  std::vector<int> sizes_;                       // ascending
  std::vector<double> mean_;                     // of log seconds
  std::vector<std::vector<double>> covariance_;  // [size][size]
  std::vector<double> gain_;                     // scratch of record()
  double noise_ = 0.1;                           // mean deviation of log seconds from what they should be
};

}  // namespace specdec
