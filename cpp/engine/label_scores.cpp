#include "engine/label_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace specdec {

Request reading_request(const std::vector<Token>& prompt) {
  Request request;
  request.prompt_tokens = prompt;
  request.max_tokens = 0;
  request.read_prompt = true;
  request.num_draft_tokens = 0;  // the draft reads nothing
  return request;
}

Request label_request(const std::vector<Token>& prompt, const std::vector<Token>& label) {
  if (label.empty()) throw std::invalid_argument("a label has no tokens; give at least one character");
  Request request;
  request.prompt_tokens = prompt;
  request.prompt_tokens.insert(request.prompt_tokens.end(), label.begin(), label.end());
  request.max_tokens = 0;
  request.score_prompt = true;
  request.score_from = static_cast<int>(prompt.size());
  return request;
}

double total(const std::vector<double>& logprobs) { return std::accumulate(logprobs.begin(), logprobs.end(), 0.0); }

std::vector<double> shares(const std::vector<double>& logprobs) {
  std::vector<double> result;
  if (logprobs.empty()) return result;
  const double most = *std::max_element(logprobs.begin(), logprobs.end());
  // If no label is possible, all are equally so.
  for (const double logprob : logprobs) result.push_back(std::isinf(most) ? 1.0 : std::exp(logprob - most));
  const double sum = total(result);
  for (double& share : result) share /= sum;
  return result;
}

}  // namespace specdec
