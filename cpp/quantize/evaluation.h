// Computes the perplexity of a model on a text, and the divergence of its predictions from a reference model's.
//
// The text's tokens (with BOS first if the model uses one) are cut into windows of `window` tokens; a last partial
// window is dropped. Each window is read with an empty cache, its first token replaced by BOS if the model uses one.
// The predictions of the window's second half are scored: rows window/2 .. window-2, each predicting the next token, so
// that every scored prediction has at least window/2 + 1 tokens of context. llama.cpp's llama-perplexity does the same,
// so results are comparable.
//
// Standard errors treat the scored tokens as independent, as llama.cpp does, although neighbouring tokens are
// correlated. Computed in float64 from the f32 logits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace specdec {

struct Estimate {
  double value = 0.0, standard_error = 0.0;
};

// Kullback-Leibler divergence (reference || model) of the next-token distributions in nats per token, and how often
// both have the same most probable token (ties: the lowest id).
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

  // Called after each window; returns whether to continue.
  std::function<bool(int done, int total)> progress;
  // Called regularly while a model runs; true ends the evaluation.
  std::function<bool()> cancelled;
};

// Both models read one window at a time, so memory holds two models, and for each a cache of one window and at most 256
// rows of logits. Throws ModelError, VocabularyMismatch, std::invalid_argument (a text of less than one window),
// Cancelled.
Evaluation evaluate(const std::string& text, const EvaluationOptions& options);

}  // namespace specdec
