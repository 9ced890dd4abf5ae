#include "sampling/folded_row.h"

#include <functional>
#include <stdexcept>
#include <string>

#include "base/index.h"

namespace specdec::sampling {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Logit>
bool is_valid(Logit logit) {
  return logit < static_cast<Logit>(infinity);  // false for NaN
}

}  // namespace

template <class Logit>
FoldedRow<Logit>::FoldedRow(const Logit* logits, int size, std::vector<double>& maxima)
    : logits_(logits), size_(size), maxima_(maxima) {
  maxima.resize(idx(size / (maxima_lanes * depth) * maxima_lanes));
  const Logit *const end = logits + size, *const rest = logits + static_cast<int>(maxima.size()) * depth;
  const bool valid = logit_loops<Logit>().maxima(logits, depth, maxima.data(), maxima.size());
  if (valid && std::all_of(rest, end, is_valid<Logit>)) return;
  const Logit* const bad = std::find_if_not(logits, end, is_valid<Logit>);
  throw std::invalid_argument(std::string("logits contain ") + (std::isnan(*bad) ? "NaN" : "+inf") + " (first at id " +
                              std::to_string(bad - logits) + ")");
}

template <class Logit>
Token FoldedRow<Logit>::argmax() const {
  Token best = -1;
  visit_above(-infinity, [&](double logit, Token token) {
    best = token;
    return logit;
  });
  if (best < 0)
    throw NoTokenLeft("no finite logit among " + std::to_string(size_) + ": no token has a probability above zero");
  return best;
}

// The k-th highest of the maxima of disjoint parts is a lower bound of the k-th best logit. More parts give a tighter
// bound, fewer are sorted faster.
template <class Logit>
double FoldedRow<Logit>::floor_of_best(std::size_t k, std::vector<double>& scratch) const {
  const std::size_t num_parts = std::max<std::size_t>(64, 4 * k);
  const auto depth_of_parts = static_cast<int>(std::max<std::size_t>(1, maxima_.size() / num_parts));
  const auto num_maxima = static_cast<int>(maxima_.size());
  scratch.resize(idx(num_maxima / (maxima_lanes * depth_of_parts) * maxima_lanes));
  if (scratch.size() < k) return -infinity;
  row_loops().f64.maxima(maxima_.data(), depth_of_parts, scratch.data(), scratch.size());
  const auto kth = scratch.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(scratch.begin(), kth, scratch.end(), std::greater<double>());
  return std::nextafter(*kth, -infinity);  // keeps ties
}

template class FoldedRow<float>;
template class FoldedRow<double>;

}  // namespace specdec::sampling
