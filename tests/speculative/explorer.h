// Exact enumeration of what random numbers decide.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace toy {

// Walks the tree of all choices depth first: replays the path so far, then takes the first choice at each new node.
class Explorer {
 public:
  bool advance() {  // to the next leaf; false after the last
    while (!path_.empty() && path_.back().index + 1 == path_.back().count) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().index;
    return true;
  }
  void restart() {
    depth_ = 0;
    weight = 1.0;
  }
  // breakpoints: where the outcome may change, any order; those in the interval count. The interval becomes the chosen
  // part.
  using Interval = std::pair<double, double>;
  double choose(std::vector<double> breakpoints, Interval& interval) {
    const auto [begin, end] = interval;
    breakpoints.push_back(begin);
    breakpoints.push_back(end);
    std::sort(breakpoints.begin(), breakpoints.end());
    std::vector<Interval> intervals;
    for (std::size_t i = 0; i + 1 < breakpoints.size(); ++i) {
      if (breakpoints[i] >= begin && breakpoints[i + 1] <= end && breakpoints[i + 1] > breakpoints[i]) {
        intervals.emplace_back(breakpoints[i], breakpoints[i + 1]);
      }
    }
    if (depth_ == path_.size()) path_.push_back({0, intervals.size()});
    interval = intervals.at(path_[depth_++].index);
    weight *= (interval.second - interval.first) / (end - begin);
    return 0.5 * (interval.first + interval.second);
  }
  double weight = 1.0;

 private:
  struct Choice {
    std::size_t index, count;
  };
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
};

}  // namespace toy
