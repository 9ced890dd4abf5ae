// What a draft model would gain, predicted from the files alone: a pass takes as long as its bytes.
#pragma once

#include <vector>

#include "gguf/gguf_file.h"

namespace specdec {

constexpr double usual_acceptance = 0.7;  // of drafts by a model of the target's family
constexpr double least_gain = 1.1;        // a draft model with less is not worth its memory

// Bytes of weights that a pass over one token reads: experts in use only, and no rows of the token embedding. The
// weights of a draft model are rounded as draft_weights = "auto" does, and the signs of its output matrix are read
// first (llama/weight_tiles.h).
double pass_bytes(const std::vector<GgufFile>& parts, bool as_draft);

struct BestDrafts {
  int count;    // per target call
  double gain;  // tokens per second over those without drafts
};
// cost: of a draft's pass, in passes of the target.
BestDrafts best_drafts(double cost, double acceptance);

// Tokens per second with the best number of drafts over those without. cost: of a draft's pass, in passes of the
// target.
double predicted_gain(double cost, double acceptance);

}  // namespace specdec
