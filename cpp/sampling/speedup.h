// Predicts the speedup of speculative decoding from measured times and rates (Leviathan et al., arXiv:2211.17192,
// section 3.3, with a measured rate instead of their i.i.d. acceptance).
#pragma once

namespace specdec::sampling {

// Tokens per second of speculative decoding, divided by those of plain decoding. A cycle takes
// num_draft_tokens * t_draft + t_target_batch and yields rate * (num_draft_tokens + 1) tokens; plain decoding yields
// one per t_target.
//   rate            tokens per cycle / (K + 1) = (1 + acceptance_rate * K) / (K + 1), in (0, 1]
//   t_draft         time of one draft pass; t_target: of a target pass over 1 token; t_target_batch: over K + 1 tokens.
//                   All in the same unit.
// Throws std::invalid_argument outside those ranges (times: finite, t_draft >= 0, the others > 0).
double predicted_speedup(double rate, int num_draft_tokens, double t_draft, double t_target, double t_target_batch);

// The same with t_target_batch = t_target: the limit in which a pass only costs reading the weights.
double predicted_speedup(double rate, int num_draft_tokens, double t_draft, double t_target);

}  // namespace specdec::sampling
