#include "sampling/speedup.h"

#include <cmath>

#include "sampling/require.h"

namespace specdec::sampling {

double predicted_speedup(double rate, int num_draft_tokens, double t_draft, double t_target, double t_target_batch) {
  require(rate > 0.0 && rate <= 1.0, "rate", rate, "in (0, 1]");
  require(num_draft_tokens >= 0, "num_draft_tokens", num_draft_tokens, ">= 0");
  require(t_draft >= 0.0 && std::isfinite(t_draft), "t_draft", t_draft, "finite and >= 0");
  require(t_target > 0.0 && std::isfinite(t_target), "t_target", t_target, "finite and > 0");
  require(t_target_batch > 0.0 && std::isfinite(t_target_batch), "t_target_batch", t_target_batch, "finite and > 0");
  const double tokens_per_cycle = rate * (num_draft_tokens + 1.0);
  const double cycle = num_draft_tokens * t_draft + t_target_batch;
  return tokens_per_cycle * t_target / cycle;
}

double predicted_speedup(double rate, int num_draft_tokens, double t_draft, double t_target) {
  return predicted_speedup(rate, num_draft_tokens, t_draft, t_target, t_target);
}

}  // namespace specdec::sampling
