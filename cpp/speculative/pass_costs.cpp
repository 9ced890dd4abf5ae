#include "speculative/pass_costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace specdec {
namespace {

constexpr double unknown_slope = 0.05;  // of a pass, per token more, before any longer one was measured

}  // namespace

// Other processes make passes longer, never shorter, and by more than one more token does: what a pass takes undisturbed
// is tracked, falling fast and rising slowly. Passes of other sizes are taken to have changed a little with this one, since
// the cache grows and the machine's speed drifts.
void PassCosts::record(int num_tokens, double seconds) {
  longest_ = std::max(longest_, num_tokens);
  forget_stale();
  auto point = std::lower_bound(points_.begin(), points_.end(), num_tokens, [](const Point& p, int n) { return p.num_tokens < n; });
  if (point == points_.end() || point->num_tokens != num_tokens) {
    const double expected = empty() ? seconds : this->seconds(num_tokens);
    point = points_.insert(point, {num_tokens, std::min(seconds, 1.5 * expected), 1});
  } else {
    const double excess = std::min(seconds / point->seconds - 1.0, 0.5);
    const double share = ++point->count <= 4 && excess < 0.0 ? 1.0 : excess < 0.0 ? 0.3 : 0.04;
    const double change = 1.0 + share * excess;
    for (auto other = points_.begin(); other != points_.end(); ++other) other->seconds *= other == point ? change : std::sqrt(change);
  }
  point->age = 0;
  for (auto shorter = points_.begin(); shorter != point; ++shorter) shorter->seconds = std::min(shorter->seconds, point->seconds);
  for (auto longer = std::next(point); longer != points_.end(); ++longer) longer->seconds = std::max(longer->seconds, point->seconds);
}

// A size that looks expensive is not tried again, and may have been unlucky: it is forgotten, the sooner the less often it was
// measured. Not the shortest, which all others are compared with.
void PassCosts::forget_stale() {
  constexpr int patience = 50;
  if (points_.empty()) return;
  for (Point& p : points_) ++p.age;
  const auto stale = [](const Point& p) { return p.age > patience * p.count; };
  points_.erase(std::remove_if(points_.begin() + 1, points_.end(), stale), points_.end());
}

double PassCosts::seconds(int num_tokens) const {
  if (empty()) return 0.0;
  const auto longer = std::lower_bound(points_.begin(), points_.end(), num_tokens, [](const Point& p, int n) { return p.num_tokens < n; });
  if (longer != points_.end() && (longer->num_tokens == num_tokens || longer == points_.begin())) return longer->seconds;
  const Point& first = points_.front();
  const Point& last = points_.back();
  if (longer == points_.end()) {
    const double slope = points_.size() == 1 ? unknown_slope * last.seconds : (last.seconds - first.seconds) / (last.num_tokens - first.num_tokens);
    return last.seconds + slope * (num_tokens - last.num_tokens);
  }
  const Point& shorter = *std::prev(longer);
  const double part = static_cast<double>(num_tokens - shorter.num_tokens) / (longer->num_tokens - shorter.num_tokens);
  return shorter.seconds + part * (longer->seconds - shorter.seconds);
}

}  // namespace specdec
