// What "auto" has learnt about a pair of models on a machine, for a later process. It affects how soon drafts pay,
// never the output.
#pragma once

#include <vector>

namespace specdec {

struct AutoKnowledge {
  struct PassCost {
    double tokens, log_seconds;
    double doubt;  // standard deviation of log_seconds, compared with the other sizes
  };
  struct Costs {
    std::vector<PassCost> passes;
    double change = 0.0, noise = 0.0;  // pass_costs.h
  };
  struct Acceptance {
    double level = 0.0, slope = 0.0;  // acceptance_model.h
  };
  struct Drafts {
    Acceptance by_row, by_draft;
    std::vector<double> row_confidences;
    double rate = 0.0;  // tokens per plain cycle's time; 0: unknown
  };

  Costs target, draft;
  Drafts model, text;
  double proposing = 1.0;  // share of cycles with something to propose
  double budget = 0.0;     // of trials, saved up over short runs; unit: plain cycles
};

}  // namespace specdec
