// What passes of a model cost, learnt while they run.
#pragma once

#include <vector>

namespace specdec {

// Seconds by number of tokens in a pass, learnt from passes, interpolated between them.
class PassCosts {
 public:
  PassCosts() { points_.reserve(64); }  // as many sizes as one sequence's passes can have
  void record(int num_tokens, double seconds);
  bool empty() const { return points_.empty(); }
  double seconds(int num_tokens) const;  // never falls with num_tokens
  int longest() const { return longest_; }  // ever recorded

 private:
  struct Point {
    int num_tokens;
    double seconds;
    int count;    // of passes measured
    int age = 0;  // passes of other sizes since
  };
  void forget_stale();
  std::vector<Point> points_;  // both ascending
  int longest_ = 0;
};

}  // namespace specdec
