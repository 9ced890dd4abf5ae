// A row of logits that was read once. It keeps the maxima of the row's parts, by which the highest logits are found
// without reading the rest again.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/token.h"
#include "sampling/kernels.h"

namespace specdec::sampling {

// A row in which no token has a probability above zero.
class NoTokenLeft : public std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Logit: float or double. NaN and +inf throw std::invalid_argument, which names the first such id.
template <class Logit>
class FoldedRow {
 public:
  // maxima: memory for the folded row. Both it and the logits [size] must outlive this object.
  FoldedRow(const Logit* logits, int size, std::vector<double>& maxima);

  // The token with the highest logit, of equal ones the lowest id. Throws NoTokenLeft if all logits are -inf.
  Token argmax() const;

  // At least k logits (k > 0), or all finite ones, are above it, and few more if the row is long. -inf for a short row.
  double floor_of_best(std::size_t k, std::vector<double>& scratch) const;

  // Calls visit(logit, token) for every logit above the floor, in ascending order of tokens; visit returns the floor
  // for the rest of the row.
  template <class Visit>
  void visit_above(double floor, Visit visit) const;

 private:
  // Each maximum is of this many logits, maxima_lanes apart. A block of maxima is of neighbouring logits.
  static constexpr int depth = 16;
  static_assert(logits_per_block % maxima_lanes == 0);

  template <class Visit>
  double visit_part(Token begin, Token end, double floor, Visit& visit) const;

  const Logit* logits_;
  int size_;
  const std::vector<double>& maxima_;  // of the row, except for fewer than maxima_lanes * depth logits at its end
};

// The largest Logit that is not above x: no Logit lies between the two.
template <class Logit>
Logit round_down(double x) {
  const auto rounded = static_cast<Logit>(x);
  return static_cast<double>(rounded) <= x ? rounded : std::nextafter(rounded, -std::numeric_limits<Logit>::infinity());
}

template <class Logit>
template <class Visit>
double FoldedRow<Logit>::visit_part(Token begin, Token end, double floor, Visit& visit) const {
  for (; begin < end; begin += logits_per_block) {
    begin = logit_loops<Logit>().next_block_above(logits_, begin, end, round_down<Logit>(floor));
    for (Token token = begin; token < std::min(begin + logits_per_block, end); ++token) {
      const auto logit = static_cast<double>(logits_[token]);
      if (logit > floor) floor = visit(logit, token);
    }
  }
  return floor;
}

template <class Logit>
template <class Visit>
void FoldedRow<Logit>::visit_above(double floor, Visit visit) const {
  const auto num_maxima = static_cast<int>(maxima_.size());
  for (int first = 0; first < num_maxima; first += logits_per_block) {
    first = row_loops().f64.next_block_above(maxima_.data(), first, num_maxima, floor);
    floor = visit_part(first * depth, std::min(first + logits_per_block, num_maxima) * depth, floor, visit);
  }
  visit_part(num_maxima * depth, size_, floor, visit);
}

extern template class FoldedRow<float>;
extern template class FoldedRow<double>;

}  // namespace specdec::sampling
