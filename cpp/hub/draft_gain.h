// Predicts the gain of a draft model from the files alone, assuming that a pass takes as long as reading its bytes.
#pragma once

#include <functional>
#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

constexpr double usual_acceptance = 0.7;  // for drafts of a model from the target's family
constexpr double least_gain = 1.1;        // a draft model that gains less is not worth its memory

// The share of a model's experts that a token uses; 1: it has none.
double used_experts(const GgufFile& file);

// Bytes of weights that a pass over one token reads: only experts in use, and no rows of the token embedding. as_draft:
// the weights are rounded like draft_weights = "auto" does, and the signs of the output matrix are read first
// (llama/weight_tiles.h).
double pass_bytes(const std::vector<GgufFile>& parts, bool as_draft);

struct BestDrafts {
  int count;    // per target call
  double gain;  // tokens per second divided by those without drafts
};
// cost: one draft pass in units of a target pass over one token. cost_of_pass: the same of a target pass over so many
// tokens, apart from what each of them computes; empty: 1.
using CostOfPass = std::function<double(int tokens)>;
BestDrafts best_drafts(double cost, double acceptance, const CostOfPass& cost_of_pass = {});

// The gain with the best number of drafts.
double predicted_gain(double cost, double acceptance, const CostOfPass& cost_of_pass = {});

}  // namespace specdec
