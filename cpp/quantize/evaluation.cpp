#include "quantize/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "llama/backend.h"
#include "llama/context.h"
#include "llama/model.h"
#include "platform/cores.h"
#include "speculative/reading_logits.h"

namespace specdec {
namespace {

constexpr int tokens_per_pass = 256;

// ---- One row of logits

// log(sum(exp(logits))) as a sum of two parts, both functions of the row only.
struct LogSum {
  double max, log_of_sum;
  double total() const { return max + log_of_sum; }
};

LogSum log_sum_exp(const float* logits, int size) {
  const double max = static_cast<double>(*std::max_element(logits, logits + size));
  double sum = 0.0;
  for (int i = 0; i < size; ++i) sum += std::exp(static_cast<double>(logits[i]) - max);
  if (!std::isfinite(max) || !std::isfinite(sum))
    throw std::invalid_argument("the logits contain NaN or no finite value");
  return {max, std::log(sum)};
}

// sum over i of p_i (log p_i - log q_i), p the softmax of `reference`, q that of `model`. Exactly 0 for equal rows.
double divergence(const float* reference, const LogSum& p, const float* model, const LogSum& q, int size) {
  const double offset = p.total() - q.total();
  double sum = 0.0;
  for (int i = 0; i < size; ++i) {
    const double x = static_cast<double>(reference[i]);
    const double probability = std::exp(x - p.max - p.log_of_sum);
    if (probability > 0.0) sum += probability * (x - static_cast<double>(model[i]) - offset);
  }
  return std::max(sum, 0.0);  // rounding can make it negative
}

// ---- Statistics

Estimate mean_of(const std::vector<double>& samples) {
  const auto n = static_cast<double>(samples.size());
  double sum = 0.0, squares = 0.0;
  for (const double x : samples) sum += x;
  const double mean = sum / n;
  for (const double x : samples) squares += (x - mean) * (x - mean);
  return {mean, n > 1 ? std::sqrt(squares / (n - 1) / n) : std::numeric_limits<double>::quiet_NaN()};
}

Estimate exponential(const Estimate& logarithm) {
  const double value = std::exp(logarithm.value);
  return {value, value * logarithm.standard_error};
}

// Interpolates linearly between order statistics.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = place - static_cast<double>(below);
  return weight == 0.0 ? sorted[below] : sorted[below] + weight * (sorted[above] - sorted[below]);
}

struct Samples {  // one entry per scored token
  std::vector<double> loss, reference_loss, divergence, same_top;
};

Divergence summarize_divergence(const Samples& samples) {
  Divergence result;
  result.mean = mean_of(samples.divergence);
  result.same_top = mean_of(samples.same_top);
  result.reference_perplexity = exponential(mean_of(samples.reference_loss));
  std::vector<double> differences(samples.loss);
  for (std::size_t i = 0; i < differences.size(); ++i) differences[i] -= samples.reference_loss[i];
  result.log_perplexity_ratio = mean_of(differences);
  std::vector<double> sorted(samples.divergence);
  std::sort(sorted.begin(), sorted.end());
  result.median = quantile(sorted, 0.5);
  result.percentile_99 = quantile(sorted, 0.99);
  result.max = sorted.back();
  return result;
}

// ---- Models

// A model that reads windows.
class Reader {
 public:
  Reader(const char* role, const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads,
         const EvaluationOptions& options)
      : role_(role), context_(model, std::move(threads), context_options(options.window)) {
    context_.set_cancel_check(options.cancelled);
  }

  int vocabulary_size() const { return context_.vocabulary_size(); }
  void forget() { context_.truncate(0, 0); }
  void read(const Token* tokens, int count, int rows) { context_.decode({{0, tokens, count, rows}}); }
  const float* logits(int row) const { return context_.logits(row); }
  LogSum log_sum(int row) const {
    return reading_logits_of(role_, [&] { return log_sum_exp(logits(row), vocabulary_size()); });
  }

 private:
  static Context::Options context_options(int window) {
    Context::Options options;
    options.context_length = window;
    options.batch_size = options.max_rows = std::min(window, tokens_per_pass);
    return options;
  }

  const char* role_;
  Context context_;
};

// Distributions over different vocabularies cannot be compared.
void check_vocabularies(const Model& model, const Model& reference) {
  const Vocabulary ours = model.vocabulary(), theirs = reference.vocabulary();
  const std::string which = model.path() + " and " + reference.path() + " do not share a vocabulary: ";
  if (const auto difference = Vocabulary::first_difference({"model", ours}, {"reference", theirs})) {
    throw VocabularyMismatch(which + *difference);
  }
  if (ours.size() == theirs.size()) return;
  throw VocabularyMismatch(which + "the model has " + std::to_string(ours.size()) + " tokens, the reference " +
                           std::to_string(theirs.size()));
}

std::vector<Token> tokenize(const Model& model, const std::string& text, int window) {
  std::vector<Token> tokens = model.vocabulary().tokenize(text);
  if (tokens.size() >= idx(window)) return tokens;
  throw std::invalid_argument("the text has " + std::to_string(tokens.size()) + " tokens, a window takes " +
                              std::to_string(window) + "; use a longer text or a smaller window (-c)");
}

// ---- The run

class Run {
 public:
  explicit Run(const EvaluationOptions& options) : options_(options) {
    const auto threads =
        std::make_shared<ThreadPool>(options.num_threads > 0 ? options.num_threads : default_threads());
    model_file_ = std::make_shared<const Model>(options.model);
    if (!options.reference.empty()) {
      const auto reference_file = std::make_shared<const Model>(options.reference);
      check_vocabularies(*model_file_, *reference_file);
      reference_ = std::make_unique<Reader>("reference", reference_file, threads, options);
    }
    model_ = std::make_unique<Reader>("evaluated", model_file_, threads, options);
  }

  Evaluation over(const std::string& text) {
    std::vector<Token> tokens = tokenize(*model_file_, text, options_.window);
    const Vocabulary vocabulary = model_file_->vocabulary();
    const auto available = static_cast<int>(tokens.size() / idx(options_.window));
    const int count = options_.max_windows > 0 ? std::min(options_.max_windows, available) : available;
    for (int i = 0; i < count; ++i) {
      Token* window = tokens.data() + idx(i) * idx(options_.window);
      if (vocabulary.adds_bos()) window[0] = vocabulary.bos();
      read_window(window);
      if (options_.progress && !options_.progress(i + 1, count)) throw Cancelled("interrupted");
    }
    return summarize(count);
  }

 private:
  // The last token is only predicted, not read.
  void read_window(const Token* tokens) {
    model_->forget();
    if (reference_) reference_->forget();
    const int first_scored = options_.window / 2, end = options_.window - 1;
    read_span(tokens, 0, first_scored, false);
    read_span(tokens, first_scored, end, true);
  }

  void read_span(const Token* tokens, int begin, int end, bool scored) {
    for (int at = begin; at < end; at += tokens_per_pass) {
      const int count = std::min(tokens_per_pass, end - at), rows = scored ? count : 0;
      model_->read(tokens + at, count, rows);
      if (reference_) reference_->read(tokens + at, count, rows);
      for (int row = 0; row < rows; ++row) score(row, tokens[at + row + 1]);
    }
  }

  void score(int row, Token next) {
    const float* logits = model_->logits(row);
    const LogSum q = model_->log_sum(row);
    samples_.loss.push_back(q.total() - static_cast<double>(logits[next]));
    if (!reference_) return;
    const int size = model_->vocabulary_size();
    const float* expected = reference_->logits(row);
    const LogSum p = reference_->log_sum(row);
    samples_.reference_loss.push_back(p.total() - static_cast<double>(expected[next]));
    samples_.divergence.push_back(divergence(expected, p, logits, q, size));
    const bool same =
        std::max_element(logits, logits + size) - logits == std::max_element(expected, expected + size) - expected;
    samples_.same_top.push_back(same ? 1.0 : 0.0);
  }

  Evaluation summarize(int num_windows) const {
    Evaluation result;
    result.num_windows = num_windows;
    result.num_scored = static_cast<std::int64_t>(samples_.loss.size());
    result.negative_log_likelihood = mean_of(samples_.loss);
    result.perplexity = exponential(result.negative_log_likelihood);
    if (reference_) result.divergence = summarize_divergence(samples_);
    return result;
  }

  const EvaluationOptions& options_;
  std::shared_ptr<const Model> model_file_;
  std::unique_ptr<Reader> model_, reference_;
  Samples samples_;
};

}  // namespace

Evaluation evaluate(const std::string& text, const EvaluationOptions& options) {
  if (options.window < 4) throw std::invalid_argument("a window has at least 4 tokens");
  return Run(options).over(text);
}

}  // namespace specdec
