// Scores labels as continuations of a prompt: how likely the target writes each of them there, without any transform or
// constraint.
#pragma once

#include <vector>

#include "engine/request.h"

namespace specdec {

// Reads a prompt into the caches. It is to be run first, so that the prompt is read once and without its own scores.
Request reading_request(const std::vector<Token>& prompt);
// Scores only the label's tokens (ScheduledRequest::prompt_score()): the same bits as in a score of the whole text.
// Throws std::invalid_argument for a label without tokens.
Request label_request(const std::vector<Token>& prompt, const std::vector<Token>& label);

double total(const std::vector<double>& logprobs);  // the log-probability of a label: the sum over its tokens
// The labels' shares of their common probability, from their log-probabilities. They sum to 1.
std::vector<double> shares(const std::vector<double>& logprobs);

}  // namespace specdec
