// How well a model predicts a text, and how far its predictions are from a reference model's.
//
// The text's tokens (BOS first where the model uses one) are cut into windows of `window` tokens, a last partial one dropped;
// each window is read with an empty cache, its first token replaced by BOS where the model uses one. Scored are the
// predictions of the window's second half: rows window/2 .. window-2, each of the token after it, so that every scored
// prediction has seen at least window/2 + 1 tokens. This is what llama.cpp's llama-perplexity does; the numbers compare.
//
// Standard errors treat the scored tokens as independent, as llama.cpp does; those of text are a little correlated.
// Everything is double precision from the logits (f32) on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace specdec {

struct Estimate {
  double value = 0.0, standard_error = 0.0;
};

// Kullback-Leibler divergence (reference || model) of the distributions of the next token, nats per token, and how often
// the most probable token is the same (the lowest id where several are).
struct Divergence {
  Estimate mean;
  double median = 0.0, percentile_99 = 0.0, max = 0.0;
  Estimate same_top;  // fraction
  Estimate reference_perplexity;
  Estimate log_perplexity_ratio;  // log(model's / reference's); the error is that of the paired difference
};

struct Evaluation {
  int num_windows = 0;
  std::int64_t num_scored = 0;       // tokens
  Estimate negative_log_likelihood;  // nats per token
  Estimate perplexity;               // exp of it
  std::optional<Divergence> divergence;
};

struct EvaluationOptions {
  std::string model, reference;  // paths; no reference: perplexity only
  int window = 512;              // tokens; at least 4
  int max_windows = 0;           // 0: all
  int num_threads = 0;           // 0: one per physical core

  // After each window; returns whether to go on.
  std::function<bool(int done, int total)> progress;
  // Asked now and then while a model runs; true ends the evaluation.
  std::function<bool()> cancelled;
};

// Both models read window after window, so memory holds two models, two caches of one window, and no more than 256 rows of
// logits each. Throws ModelError, VocabularyMismatch, std::invalid_argument (a text of less than one window), Cancelled.
Evaluation evaluate(const std::string& text, const EvaluationOptions& options);

}  // namespace specdec
