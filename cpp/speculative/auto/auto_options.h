// All constants of num_draft_tokens = "auto". docs/draft-length.md derives the rule that uses them;
// bench/draft_length/CONSTANTS.md shows the effect of halving and doubling each
// (bench/draft_length/auto_constants.cpp).
#pragma once

namespace specdec {

struct AutoOptions {
  // Pass costs (pass_costs.h): a Kalman filter over log seconds. Variances are of natural logarithms.
  struct Costs {
    double tokens_per_reading = 16.0;  // prior: reading the weights once takes as long as computing this many tokens
    // Per unit of log(tokens): one doubling deviates from the prior by a factor e^0.26. Also the variance of a change,
    // in units of longest_change.
    double walk_variance = 0.1;
    double speed_variance = 1e-4;  // per pass, common to all sizes: the machine's speed drifts by 1 %
    double shape_variance = 5e-5;  // per pass and size: the KV cache grows
    double first_noise = 0.1;      // mean deviation of log seconds from the prediction before any was measured
    double noise_rate = 0.05;      // share of the newest pass in its running mean
    double outlier = 2.0;          // standard deviations: a slower pass is counted as only this much slower
    // Standard deviations: a faster pass raises the variance, so that the measurement counts.
    double too_fast = 3.0;
    double speed_between_runs = 0.2;   // standard deviation of an earlier process's log seconds, common to all sizes
    double shape_between_runs = 0.05;  // the same, of each size in addition
    double longest_change = 1e-3;      // seconds, roughly: building a graph takes no longer for larger weights
  };
  // Acceptance (acceptance_model.h): log-odds(accepted) = level + slope * log-odds(confidence).
  struct Acceptance {
    // The prior is near even odds for every confidence, so that drafts are tried; a few verdicts correct it.
    double level = 0.0, slope = 0.3;
    double level_variance = 1.5, slope_variance = 0.1;
    double least_confidence = 0.01;  // confidences below it, or above 0.998, say no more
    double between_runs = 0.6;       // weight of what an earlier process learnt from other texts against this prior
    double drift = 2.7e-3;  // share of these variances that is added per cycle; about the last 50 verdicts count
  };

  Costs costs;
  Acceptance acceptance;
  double memory = 0.95;  // decay of the current rate, and of the share of cycles with something to propose, per cycle
  double trial_share = 0.01;  // share of the time that trials may take
  // Plain passes until that share is reached, growing from 0: what was just learnt needs no trial.
  double trials_grow = 160.0;
  double optimism = 2.0;     // standard deviations by which the optimistic cost of a length is below its mean
  double leap = 4.0;         // a pass may have at most this many times the columns of the largest one measured
  double warm_after = 2e-3;  // seconds of plain cycles before the first draft: caches and pages are cold at first
  int longest_tried = 24;    // drafts
  double catch_up_lasts =
      32.0;  // cycles: a draft model that must read what it did not draft will be used this often afterwards
  // How many more tokens an output is expected to get; decides whether a draft model reads a long text for it.
  double expected_tokens = 256.0;
  double other_kind = 0.05;          // weight of cycles without copies in the rate of those with copies, and vice versa
  double recent_between_runs = 5.0;  // how many cycles the rate of an earlier process counts as
  // An earlier process whose passes took this many times as long was slowed down by other programs.
  double busy_before = 1.6;
  int plan_lasts = 16;  // plain cycles; for tiny models, making a plan takes as long as a cycle
};

}  // namespace specdec
