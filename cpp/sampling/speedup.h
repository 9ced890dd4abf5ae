// What speculative decoding gains, predicted from four numbers (Leviathan et al., arXiv:2211.17192, section 3.3,
// with a measured rate in place of their i.i.d. acceptance).
#pragma once

namespace specdec::sampling {

// Speculative over plain decoding, in tokens per second. A cycle takes num_draft_tokens * t_draft + t_target_batch
// and yields rate * (num_draft_tokens + 1) tokens, where plain decoding yields one per t_target.
//   rate            tokens per cycle / (K + 1) = (1 + acceptance_rate * K) / (K + 1), in (0, 1]
//   t_draft         one draft pass; t_target: one target pass over 1 token; t_target_batch: over K + 1. One unit.
// Throws std::invalid_argument outside those ranges (times: finite, t_draft >= 0, the others > 0).
double predicted_speedup(double rate, int num_draft_tokens, double t_draft, double t_target, double t_target_batch);

// A target pass over K + 1 tokens as fast as one over 1: the limit where reading the weights is all that counts.
double predicted_speedup(double rate, int num_draft_tokens, double t_draft, double t_target);

}  // namespace specdec::sampling
