#include "cli/commands/quantize.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "cli/hub_models.h"
#include "cli/options.h"
#include "cli/prompt.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "platform/interrupt.h"
#include "quantize/calibrated_quantizer.h"
#include "quantize/gguf_quantizer.h"

namespace specdec::cli {
namespace {

using Clock = std::chrono::steady_clock;

// ---- Options

struct QuantizeArguments {
  QuantizeOptions quantize;
  std::string type = "mxfp6", scale = "mse", calibration_text;
  bool json = false;
};

CommandLine command_line(QuantizeArguments& arguments) {
  QuantizeOptions& options = arguments.quantize;
  CommandLine line;
  line.command = "specdec quantize";
  line.arguments = "[options] IN OUT";
  line.about =
      "Quantizes the weights of a GGUF model (F32, F16, BF16 or Q8_0; one file or split) to MXFP6, 6.25 bits each, in "
      "one file, which only specdec_native can load; or with --type to fewer bits, for a draft of the same model. "
      "Norms, biases, routers, and matrices whose shape does not fit keep their type; the printed table says why. OUT "
      "appears only when it is complete.";
  line.num_positionals = 2;
  line.positional_hint = "; give the model and the file to write";
  line.groups = {
      {"Options",
       {choice({"--type"}, {"mxfp6", "q3", "q2"}, arguments.type,
               "mxfp6; q3, q2: for a draft, a mixture of Q3_K to Q5_K or Q2_K to Q4_K, which llama.cpp reads, too"),
        choice({"--scale"}, {"mse", "ocp"}, arguments.scale,
               "how the scale of a block is chosen. ocp: from its largest weight, as in the OCP standard; "
               "mse: of that scale and its two neighbours, the one with the least squared error"),
        text({"--calibrate"}, "TEXT", arguments.calibration_text,
             "file with text typical of the model's use (at least 512 tokens, better 100 KB or more): "
             "choose weights and scales that minimise the change of each layer's outputs on it (GPTQ). "
             "Halves the KL divergence at the same size; takes minutes for small models, hours for 7B"),
        text({"--keep"}, "REGEX", options.keep,
             "do not quantize tensors whose name matches, such as '^output' (ECMAScript syntax)"),
        integer({"-t", "--threads"}, options.num_threads, 1, 1024, "threads (default: one per CPU)"),
        flag({"--force"}, options.overwrite, "replace OUT if it exists"),
        flag({"--allow-requantize"}, options.allow_requantize,
             "also quantize from types below 8 bits, which loses accuracy twice"),
        flag({"--json"}, arguments.json, "the table as one JSON object")}}};
  return line;
}

// ---- Progress

std::string duration_text(double seconds) {
  const long whole = std::lround(seconds);
  return whole < 60 ? std::to_string(whole) + " s"
                    : std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
}

// The time left is estimated from the work done so far. Neither includes reading the calibration text.
class QuantizeProgressLine {
 public:
  bool update(const QuantizeProgress& at) {
    const Clock::time_point before = std::exchange(latest_, Clock::now());
    quantizing_ += latest_ - before;
    return line_.goes_on([&] { return text(at, std::chrono::duration<double>(quantizing_).count()); });
  }
  bool update(const CalibrationProgress& at) {
    latest_ = Clock::now();
    return line_.goes_on([&] {
      return "calibration: " + std::to_string(at.tokens_done) + " of " + std::to_string(at.tokens_total) + " tokens";
    });
  }
  void clear() { line_.clear(); }

 private:
  static constexpr double least_done = 0.01;  // below this, an estimate would be too rough

  static std::string text(const QuantizeProgress& progress, double elapsed) {
    std::string line = format("%3.0f %%", 100.0 * progress.done);
    if (progress.done > least_done)
      line += ", " + duration_text(elapsed * (1.0 - progress.done) / progress.done) + " left";
    return line + ", tensor " + std::to_string(progress.tensor_index + 1) + " of " +
           std::to_string(progress.num_tensors) + ": " + printable(progress.tensor);
  }

  ProgressLine line_;
  Clock::time_point latest_ = Clock::now();
  Clock::duration quantizing_{};
};

// ---- Results

struct Totals {
  std::uint64_t elements = 0, bytes_before = 0, bytes = 0;

  explicit Totals(const QuantizeReport& report) {
    for (const TensorReport& tensor : report.tensors) {
      elements += tensor.elements;
      bytes_before += tensor.bytes_before;
      bytes += tensor.bytes;
    }
  }
  double bits_per_weight() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(elements); }
  double relative_size() const { return static_cast<double>(bytes) / static_cast<double>(bytes_before); }
};

std::string error_text(const TensorReport& tensor) {
  const std::string weights = format("%.2f %%", 100.0 * tensor.relative_error);
  return tensor.output_error < 0.0 ? weights : weights + format(", %.2f %%", 100.0 * tensor.output_error);
}

std::string row(const TensorReport& tensor, std::size_t name_width) {
  const bool kept = !tensor.kept_because.empty();
  return pad(printable(tensor.name), name_width) + "  " + pad(find_weight_type(tensor.from)->name, 5) + "  " +
         pad(kept ? "kept" : find_weight_type(tensor.to)->name, 10) + pad_left(std::to_string(tensor.bytes), 12) +
         "  " + (kept ? tensor.kept_because : error_text(tensor)) + "\n";
}

// The cost and gain of quantizing weights again; "" if none were quantized before.
std::string requantized_text(const QuantizeReport& report, const Totals& totals) {
  std::set<std::string> types;
  for (const TensorReport& tensor : report.tensors) {
    const WeightType& type = *find_weight_type(tensor.from);
    if (tensor.kept_because.empty() && type.columns > 1) types.insert(type.name);
  }
  if (types.empty()) return "";
  std::string names;
  for (const std::string& type : types) names += (names.empty() ? "" : ", ") + type;
  return "note   requantized from " + names + ": costs " + format("%.2f times the size", totals.relative_size()) +
         " and the error above, on top of that of " + names +
         "; gains passes over several tokens that take little longer than one, which drafts need (`specdec bench -m IN "
         "-md DRAFT --mxfp6 OUT` measures it)\n";
}

// 80 columns if names have at most 29.
std::string report_table(const QuantizeReport& report, bool is_mxfp6) {
  std::size_t name_width = 6;
  for (const TensorReport& tensor : report.tensors) name_width = std::max(name_width, printable(tensor.name).size());
  const bool outputs = std::any_of(report.tensors.begin(), report.tensors.end(),
                                   [](const TensorReport& t) { return t.output_error >= 0.0; });
  std::string text = pad("tensor", name_width) + "  from   to                bytes  error" +
                     (outputs ? ", of outputs" : "") + ", or why kept\n";
  for (const TensorReport& tensor : report.tensors) text += row(tensor, name_width);
  const Totals totals(report);
  text += "\ntotal  " + std::to_string(totals.bytes_before) + " -> " + std::to_string(totals.bytes) + " bytes, " +
          format("%.2f times the size, ", totals.relative_size()) +
          format("%.2f bits per weight\n", totals.bits_per_weight());
  text += format("error  %.2f %% of the quantized weights (RMS)\n", 100.0 * report.relative_error);
  if (!is_mxfp6) return text;
  return text + requantized_text(report, totals) +
         "reader only specdec_native; keep IN for llama.cpp, Ollama and other programs\n";
}

using Json = nlohmann::ordered_json;

Json tensor_json(const TensorReport& tensor) {
  const bool kept = !tensor.kept_because.empty();
  return {{"name", tensor.name},
          {"from", find_weight_type(tensor.from)->name},
          {"to", find_weight_type(tensor.to)->name},
          {"shape", tensor.shape},
          {"bytes_before", tensor.bytes_before},
          {"bytes", tensor.bytes},
          {"kept_because", kept ? Json(tensor.kept_because) : Json(nullptr)},
          {"relative_error", kept ? Json(nullptr) : Json(tensor.relative_error)},
          {"output_error", tensor.output_error < 0.0 ? Json(nullptr) : Json(tensor.output_error)}};
}

std::string json_text(const QuantizeReport& report) {
  const Totals totals(report);
  Json json = {{"input_bytes", report.input_bytes},
               {"output_bytes", report.output_bytes},
               {"parameters", totals.elements},
               {"bits_per_weight", totals.bits_per_weight()},
               {"relative_size", totals.relative_size()},
               {"relative_error", report.relative_error},
               {"tensors", Json::array()}};
  for (const TensorReport& tensor : report.tensors) json["tensors"].push_back(tensor_json(tensor));
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

constexpr std::size_t enough_calibration_tokens = 10000;

// Null without a calibration text. The text is read when the first tensor needs it.
std::unique_ptr<MatrixQuantizer> calibrated_quantizer(const QuantizeArguments& arguments, const std::string& model,
                                                      QuantizeProgressLine& progress) {
  if (arguments.calibration_text.empty()) return nullptr;
  CalibrationOptions options;
  options.num_threads = arguments.quantize.num_threads;
  options.progress = [&](const CalibrationProgress& at) { return progress.update(at); };
  const std::string text = read_prompt({std::nullopt, arguments.calibration_text, false});
  auto quantizer = std::make_unique<CalibratedQuantizer>(model, text, options);
  if (quantizer->num_calibration_tokens() < enough_calibration_tokens) {
    note("warning: " + arguments.calibration_text + " has only " + std::to_string(quantizer->num_calibration_tokens()) +
         " tokens, so weights may fit this text only; about 100 KB are enough\n");
  }
  return quantizer;
}

}  // namespace

CommandLine describe_quantize() {
  static QuantizeArguments arguments;
  return command_line(arguments);
}

int run_quantize(int argc, const char* const* argv) {
  QuantizeArguments arguments;
  const CommandLine line = command_line(arguments);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  if (positionals->size() != 2) throw UsageError("give the model and the file to write");
  const bool is_mxfp6 = arguments.type == "mxfp6";
  arguments.quantize.types = is_mxfp6                 ? WrittenTypes::mxfp6
                             : arguments.type == "q3" ? WrittenTypes::q3
                                                      : WrittenTypes::q2;
  if (!is_mxfp6 && !arguments.calibration_text.empty())
    throw UsageError("--calibrate is for --type mxfp6; leave one of them out");
  arguments.quantize.scale = arguments.scale == "mse" ? mxfp6::ScaleRule::mse : mxfp6::ScaleRule::ocp;

  const std::string model = local_model((*positionals)[0]);
  catch_termination();
  try {
    QuantizeProgressLine progress;
    arguments.quantize.progress = [&](const QuantizeProgress& at) { return progress.update(at); };
    const auto calibrated = calibrated_quantizer(arguments, model, progress);
    arguments.quantize.quantizer = calibrated.get();
    const QuantizeReport report = quantize_gguf(model, (*positionals)[1], arguments.quantize);
    progress.clear();
    write(arguments.json ? json_text(report) : report_table(report, is_mxfp6));
    return 0;
  } catch (const Cancelled&) {
    note("specdec quantize: interrupted, nothing was written\n");
    return exit_interrupted;
  }
}

}  // namespace specdec::cli
