// The exact output distribution ("law") of a speculative cycle, by enumeration of all drafted sequences and of the
// uniforms: a verdict is a piecewise constant function of the uniforms, with known breakpoints. Nothing here is
// sampled.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "check.h"
#include "sampling/uniforms.h"
#include "sampling/verify_token.h"

namespace enumerate {

using specdec::sampling::Distribution;
using specdec::sampling::Token;
using specdec::sampling::Verdict;

using Sequence = std::vector<Token>;
using Law = std::map<Sequence, double>;                      // sums to 1
using Model = std::function<Distribution(const Sequence&)>;  // the distribution of the next token after a prefix
using Verify =
    std::function<Verdict(const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                          const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms)>;

struct Cell {
  double left, right;
};
// For each uniform, the intervals on which the verdict is constant.
using Cells =
    std::function<std::vector<std::vector<Cell>>(const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                                                 const std::vector<Distribution>& target_probs, int vocabulary)>;

inline Verdict verify_by_the_book(const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                                  const std::vector<Distribution>& target_probs, const std::vector<double>& uniforms) {
  return specdec::sampling::verify_token(drafted, draft_probs, target_probs, uniforms);
}

inline Sequence followed_by(Sequence prefix, Token token) {
  prefix.push_back(token);
  return prefix;
}

// Extends each sequence of `law` to `length` tokens with tokens of `model`.
inline Law extended(const Law& law, const Model& model, std::size_t length) {
  Law out;
  for (const auto& [sequence, weight] : law) {
    if (sequence.size() == length) {
      out[sequence] += weight;
      continue;
    }
    Law longer;
    const Distribution next = model(sequence);
    for (std::size_t i = 0; i < next.tokens.size(); ++i) {
      longer[followed_by(sequence, next.tokens[i])] = weight * next.probs[i];
    }
    for (const auto& [filled, share] : extended(longer, model, length)) out[filled] += share;
  }
  return out;
}

inline Law law_of(const Model& model, std::size_t length) { return extended({{{}, 1.0}}, model, length); }

// The model's rows along a sequence: after 0, 1, ... count - 1 of its tokens.
inline std::vector<Distribution> rows_along(const Model& model, const Sequence& sequence, std::size_t count) {
  std::vector<Distribution> rows;
  for (std::size_t i = 0; i < count; ++i)
    rows.push_back(model({sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(i)}));
  return rows;
}

// NaN, 0 / 0 where a test is certain to succeed, is no breakpoint.
inline std::vector<Cell> cells_between(std::vector<double> breakpoints) {
  breakpoints.erase(std::remove_if(breakpoints.begin(), breakpoints.end(), [](double x) { return std::isnan(x); }),
                    breakpoints.end());
  breakpoints.insert(breakpoints.end(), {0.0, 1.0});
  std::sort(breakpoints.begin(), breakpoints.end());
  std::vector<Cell> cells;
  for (std::size_t i = 1; i < breakpoints.size(); ++i) {
    const bool real =
        breakpoints[i] - breakpoints[i - 1] > 1e-14 && breakpoints[i] <= 1.0;  // else equal up to rounding
    if (real) cells.push_back({breakpoints[i - 1], breakpoints[i]});
  }
  return cells;
}

inline void add_cdf(const std::vector<double>& weights, std::vector<double>& breakpoints) {
  double total = 0.0, cumulative = 0.0;
  for (const double weight : weights) total += weight;
  for (const double weight : weights) {
    cumulative += weight;
    if (total > 0.0) breakpoints.push_back(cumulative / total);
  }
}

// Breakpoints taken from the paper, not from the code: the acceptance threshold at each place, and for the last token
// the CDFs of every distribution it may be drawn from (the target row and the residual of each place).
inline std::vector<std::vector<Cell>> cells_of(const Sequence& drafted, const std::vector<Distribution>& draft_probs,
                                               const std::vector<Distribution>& target_probs, int vocabulary) {
  std::vector<std::vector<Cell>> cells;
  std::vector<double> last;
  for (std::size_t i = 0; i < target_probs.size(); ++i) {
    std::vector<double> target(static_cast<std::size_t>(vocabulary)), excess = target;
    for (std::size_t token = 0; token < target.size(); ++token) {
      target[token] = target_probs[i].probability(static_cast<Token>(token));
      if (i < drafted.size())
        excess[token] = std::max(0.0, target[token] - draft_probs[i].probability(static_cast<Token>(token)));
    }
    add_cdf(target, last);
    if (i == drafted.size()) break;
    add_cdf(excess, last);
    cells.push_back(
        cells_between({target[static_cast<std::size_t>(drafted[i])] / draft_probs[i].probability(drafted[i])}));
  }
  cells.push_back(cells_between(last));
  return cells;
}

// The same for block verification: Sun et al., algorithm 2, with their p_i and h_i.
inline std::vector<std::vector<Cell>> block_cells_of(const Sequence& drafted,
                                                     const std::vector<Distribution>& draft_probs,
                                                     const std::vector<Distribution>& target_probs, int vocabulary) {
  std::vector<std::vector<Cell>> cells;
  std::vector<double> last;
  double p = 1.0;
  for (std::size_t i = 0; i <= drafted.size(); ++i) {
    double rest = 0.0;
    std::vector<double> target, excess;
    for (Token token = 0; token < vocabulary; ++token) {
      target.push_back(target_probs[i].probability(token));
      if (i == drafted.size()) continue;
      excess.push_back(std::max(0.0, p * target.back() - draft_probs[i].probability(token)));
      rest += excess.back();
    }
    add_cdf(i == drafted.size() || i == 0 ? target : excess, last);  // at 0 for an empty residual
    add_cdf(excess, last);
    if (i > 0) cells.push_back(cells_between({i == drafted.size() ? p : rest / (rest + (1.0 - p))}));
    if (i == drafted.size()) break;
    p = std::min(1.0, p * target[static_cast<std::size_t>(drafted[i])] / draft_probs[i].probability(drafted[i]));
  }
  cells.push_back(cells_between(last));
  return cells;
}

inline Sequence emitted(const Sequence& drafted, const Verdict& verdict) {
  return followed_by({drafted.begin(), drafted.begin() + verdict.num_accepted}, verdict.next_token);
}

// The law of the 1 to num_drafted + 1 tokens that one cycle emits. drafting: the distributions the drafts are drawn
// from; recorded: the distributions passed to verification (the same, except in negative controls).
inline Law cycle_law(const Model& drafting, const Model& recorded, const Model& target, std::size_t num_drafted,
                     int vocabulary, const Verify& verify, const Cells& cells_for = cells_of) {
  Law law;
  for (const auto& [drafted, drafted_weight] : law_of(drafting, num_drafted)) {
    const auto draft_probs = rows_along(recorded, drafted, num_drafted);
    const auto target_probs = rows_along(target, drafted, num_drafted + 1);
    const auto cells = cells_for(drafted, draft_probs, target_probs, vocabulary);

    std::vector<std::size_t> cell(num_drafted + 1, 0);  // index into the product of the cells
    std::size_t place = 0;
    while (place <= num_drafted) {
      double weight = drafted_weight;
      std::vector<double> inside[3];  // near the lower corner, in the middle, near the upper corner
      for (std::size_t i = 0; i <= num_drafted; ++i) {
        const Cell& c = cells[i][cell[i]];
        weight *= c.right - c.left;
        inside[0].push_back(c.left + 1e-3 * (c.right - c.left));
        inside[1].push_back(0.5 * (c.left + c.right));
        inside[2].push_back(c.right - 1e-3 * (c.right - c.left));
      }
      const Verdict verdict = verify(drafted, draft_probs, target_probs, inside[1]);
      CHECK(verify(drafted, draft_probs, target_probs, inside[0]) == verdict);  // constant on the cell
      CHECK(verify(drafted, draft_probs, target_probs, inside[2]) == verdict);
      law[emitted(drafted, verdict)] += weight;

      for (place = 0; place <= num_drafted && ++cell[place] == cells[place].size(); ++place) cell[place] = 0;
    }
  }
  return law;
}

// The largest difference of two laws in the probability of one sequence.
inline double distance(const Law& a, const Law& b) {
  double largest = 0.0;
  const auto compare = [&](const Law& from, const Law& with) {
    for (const auto& [sequence, weight] : from) {
      const auto found = with.find(sequence);
      largest = std::max(largest, std::fabs(weight - (found == with.end() ? 0.0 : found->second)));
    }
  };
  compare(a, b);
  compare(b, a);
  return largest;
}

// The error of the law of the first num_drafted + 1 tokens (those of the cycle, then tokens of the target).
inline double error_of_cycle(const Model& drafting, const Model& recorded, const Model& target, std::size_t num_drafted,
                             int vocabulary, const Verify& verify = verify_by_the_book,
                             const Cells& cells_for = cells_of) {
  const Law cycle = cycle_law(drafting, recorded, target, num_drafted, vocabulary, verify, cells_for);
  return distance(extended(cycle, target, num_drafted + 1), law_of(target, num_drafted + 1));
}

}  // namespace enumerate
