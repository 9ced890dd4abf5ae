#include "cli/commands/perplexity.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/hub_models.h"
#include "cli/options.h"
#include "cli/prompt.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "platform/interrupt.h"
#include "quantize/evaluation.h"

namespace specdec::cli {
namespace {

struct PerplexityArguments {
  EvaluationOptions evaluation;
  std::string file;
  bool json = false;
};

CommandLine command_line(PerplexityArguments& arguments) {
  EvaluationOptions& options = arguments.evaluation;
  CommandLine line;
  line.command = "specdec perplexity";
  line.arguments = "[options] MODEL -f TEXT";
  line.about =
      "Measures a model's perplexity on a text and, with --against, its difference from a reference model: the "
      "Kullback-Leibler divergence (reference || model) in nats per token, and how often both have the same most "
      "likely token.\n"
      "The text is split into windows of -c tokens. As in llama.cpp's perplexity tool, each begins with BOS if the "
      "model uses one, and only its second half is scored.";
  line.num_positionals = 1;
  line.positional_hint = "; give one model";
  line.groups = {
      {"Options",
       {text({"-f", "--file"}, "TEXT", arguments.file, "the text, UTF-8; - is standard input"),
        text({"--against"}, "REFERENCE", options.reference, "the model to compare with, usually the unquantized one"),
        integer({"-c", "--ctx-size"}, options.window, 4, 1 << 20, "tokens per window (default: 512)"),
        integer({"--chunks"}, options.max_windows, 1, 1 << 30, "maximum number of windows (default: all)"),
        integer({"-t", "--threads"}, options.num_threads, 1, 1024,
                "threads (default: one per physical core, performance cores only)"),
        flag({"--json"}, arguments.json, "one JSON object")}}};
  return line;
}

std::string report(const Evaluation& result) {
  std::string text =
      "perplexity        " + format("%.4f +- %.4f", result.perplexity.value, result.perplexity.standard_error) + "\n";
  if (result.divergence) {
    const Divergence& d = *result.divergence;
    text += "  of reference    " +
            format("%.4f +- %.4f", d.reference_perplexity.value, d.reference_perplexity.standard_error) + "\n";
    text += "  log of ratio    " +
            format("%.5f +- %.5f", d.log_perplexity_ratio.value, d.log_perplexity_ratio.standard_error) + "\n";
    text += "KL divergence     " + format("%.6f +- %.6f", d.mean.value, d.mean.standard_error) + " nats per token\n";
    text += "  median          " + format("%.6f", d.median) + "\n";
    text += "  99 %            " + format("%.6f", d.percentile_99) + "\n";
    text += "  max             " + format("%.6f", d.max) + "\n";
    text += "same top token    " + format("%.2f +- %.2f %%", 100 * d.same_top.value, 100 * d.same_top.standard_error) +
            "\n";
  }
  return text + "tokens scored     " + std::to_string(result.num_scored) + " in " +
         counted(result.num_windows, "window") + "\n";
}

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json estimate_json(const Estimate& estimate) {
  return {{"value", number(estimate.value)}, {"standard_error", number(estimate.standard_error)}};
}

std::string json_text(const Evaluation& result, int window) {
  Json json = {{"windows", result.num_windows},
               {"window_tokens", window},
               {"tokens_scored", result.num_scored},
               {"negative_log_likelihood", estimate_json(result.negative_log_likelihood)},
               {"perplexity", estimate_json(result.perplexity)}};
  if (result.divergence) {
    const Divergence& d = *result.divergence;
    json["reference_perplexity"] = estimate_json(d.reference_perplexity);
    json["log_perplexity_ratio"] = estimate_json(d.log_perplexity_ratio);
    json["kl_divergence"] = {{"mean", number(d.mean.value)},
                             {"standard_error", number(d.mean.standard_error)},
                             {"median", number(d.median)},
                             {"percentile_99", number(d.percentile_99)},
                             {"max", number(d.max)}};
    json["same_top_token"] = estimate_json(d.same_top);
  }
  return json.dump(2) + "\n";
}

}  // namespace

CommandLine describe_perplexity() {
  static PerplexityArguments arguments;
  return command_line(arguments);
}

int run_perplexity(int argc, const char* const* argv) {
  PerplexityArguments arguments;
  const CommandLine line = command_line(arguments);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  if (positionals->empty()) throw UsageError("no model given");
  if (arguments.file.empty()) throw UsageError("no text given (-f)");
  arguments.evaluation.model = local_model((*positionals)[0]);
  const std::string text = read_prompt({std::nullopt, arguments.file, false});

  catch_interrupt();
  ProgressLine progress;
  arguments.evaluation.progress = [&](int done, int total) {
    return progress.goes_on([&] { return std::to_string(done) + " of " + std::to_string(total) + " windows"; });
  };
  arguments.evaluation.cancelled = interrupted;
  const Evaluation result = evaluate(text, arguments.evaluation);
  progress.clear();
  write(arguments.json ? json_text(result, arguments.evaluation.window) : report(result));
  return 0;
}

}  // namespace specdec::cli
