// Random tables of several shapes, used as models in enumerations.
#pragma once

#include <algorithm>
#include <vector>

#include "enumerate.h"

namespace enumerate {

using specdec::sampling::PhiloxUniforms;
using specdec::sampling::Purpose;

inline Distribution normalised(std::vector<double> weights) {
  double total = 0.0;
  for (const double weight : weights) total += weight;
  for (double& weight : weights) weight /= total;
  Distribution out;
  out.set_dense(weights.data(), static_cast<int>(weights.size()));
  return out;
}

inline Model constant(const std::vector<double>& row) {
  return [row](const Sequence&) { return normalised(row); };
}

// The shape of a random table: the weight of a token as a function of a uniform u; some weights are zero.
using Shape = double (*)(double u, Token token);
inline double full(double u, Token) { return u; }
inline double sparse(double u, Token) { return u < 0.5 ? 0.0 : u; }
inline double even_only(double u, Token token) { return token % 2 == 0 ? u : 0.0; }
inline double odd_only(double u, Token token) { return token % 2 == 1 ? u : 0.0; }

// A table of unrelated random rows, one for each prefix; the same seed gives the same table.
inline Model table(std::uint64_t seed, int vocabulary, Shape shape) {
  return [=](const Sequence& prefix) {
    std::int64_t row = 1;
    for (const Token token : prefix) row = row * vocabulary + token + 1;
    std::vector<double> weights;
    double total = 0.0;
    for (Token token = 0; token < vocabulary; ++token) {
      weights.push_back(shape(PhiloxUniforms(seed, 0).uniform(row, token, Purpose::draft), token));
      total += weights.back();
    }
    if (!(total > 0.0)) weights[static_cast<std::size_t>(row % vocabulary)] = 1.0;
    return normalised(weights);
  };
}

inline Token most_likely(const Distribution& row) {
  const auto best = std::max_element(row.probs.begin(), row.probs.end());
  return row.tokens[static_cast<std::size_t>(best - row.probs.begin())];
}

inline Model argmax_of(const Model& model) {
  return [model](const Sequence& prefix) {
    Distribution out;
    out.set_one_hot(most_likely(model(prefix)));
    return out;
  };
}

using Family = Model (*)(std::uint64_t seed, int vocabulary);
inline Model full_draft(std::uint64_t seed, int vocabulary) { return table(2 * seed, vocabulary, full); }
inline Model full_target(std::uint64_t seed, int vocabulary) { return table(2 * seed + 1, vocabulary, full); }
inline Model sparse_draft(std::uint64_t seed, int vocabulary) { return table(2 * seed, vocabulary, sparse); }
inline Model sparse_target(std::uint64_t seed, int vocabulary) { return table(2 * seed + 1, vocabulary, sparse); }
inline Model odd_draft(std::uint64_t seed, int vocabulary) { return table(2 * seed, vocabulary, odd_only); }
inline Model even_target(std::uint64_t seed, int vocabulary) { return table(2 * seed + 1, vocabulary, even_only); }
inline Model one_hot_draft(std::uint64_t seed, int vocabulary) { return argmax_of(full_draft(seed, vocabulary)); }
inline Model one_hot_target(std::uint64_t seed, int vocabulary) { return argmax_of(full_target(seed, vocabulary)); }

}  // namespace enumerate
