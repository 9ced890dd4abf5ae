// What passes of a model cost, learnt while they run.
#pragma once

#include <vector>

namespace specdec {

// Seconds by number of tokens in a pass, learnt from passes, interpolated between them.
class PassCosts {
 public:
  void record(int num_tokens, double seconds);
  bool empty() const { return points_.empty(); }
  double seconds(int num_tokens) const;  // never falls with num_tokens
  int longest() const { return empty() ? 0 : points_.back().num_tokens; }

 private:
  struct Point {
    int num_tokens;
    double seconds;
    int count;  // of passes measured
  };
  std::vector<Point> points_;  // both ascending
};

}  // namespace specdec
