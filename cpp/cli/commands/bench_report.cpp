#include "cli/commands/bench_report.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "cli/statistics.h"
#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "sampling/speedup.h"

namespace specdec::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Speed {
  double median, low, high;  // tokens per second over the rounds
};

Speed speed(const BenchResult::Mode& mode) {
  std::vector<double> rounds;
  for (const Stats& stats : mode.rounds) rounds.push_back(stats.tokens_per_second());
  const auto [low, high] = std::minmax_element(rounds.begin(), rounds.end());
  return {median(rounds), *low, *high};
}

Stats sum(const BenchResult::Mode& mode) {
  Stats all;
  for (const Stats& stats : mode.rounds) all += stats;
  return all;
}

// The mean K: drafts per target call.
double mean_draft_length(const Stats& stats) {
  return stats.target_calls == 0 ? 0.0 : static_cast<double>(stats.drafted) / static_cast<double>(stats.target_calls);
}

// Seconds per cycle.
struct Cycle {
  double draft = 0.0, target = 0.0, sampling = 0.0, rest = 0.0;
  double total() const { return draft + target + sampling + rest; }
};

Cycle measured_cycle(const Stats& stats) {
  const double calls = static_cast<double>(std::max<std::int64_t>(1, stats.target_calls));
  const double rest = stats.seconds - stats.draft_seconds - stats.target_seconds - stats.sampling_seconds;
  return {stats.draft_seconds / calls, stats.target_seconds / calls, stats.sampling_seconds / calls, rest / calls};
}

// The prediction from pass times for a mode with a draft, compared with the same file without one.
struct Prediction {
  double num_draft_tokens;  // K; its mean if it varies or is clipped at the end
  double tokens_per_call;
  Cycle plain, speculation;  // draft and target only
  double speedup;
};

// Seconds of a target pass over n tokens, interpolated for fractional n.
double pass_seconds(const PassTimes& passes, double n) {
  const double last = static_cast<double>(passes.target.size());
  const double at = std::clamp(n, 1.0, last) - 1.0;
  const auto below = static_cast<std::size_t>(at), above = std::min(below + 1, passes.target.size() - 1);
  const double share = at - static_cast<double>(below);
  return (1.0 - share) * passes.target[below] + share * passes.target[above];
}

Prediction predict(const Stats& stats, const PassTimes& passes) {
  Prediction prediction{mean_draft_length(stats), stats.tokens_per_target_call(), {}, {}, 1.0};
  const double mean = prediction.num_draft_tokens;
  prediction.plain.target = passes.target.front();
  prediction.speculation.draft = mean * passes.draft;
  prediction.speculation.target = pass_seconds(passes, mean + 1.0);
  // The formula needs an integer K. The rate and t_draft are chosen to give the mean's tokens and draft time.
  const int k = static_cast<int>(std::ceil(mean));
  const double rate = std::min(1.0, prediction.tokens_per_call / (k + 1.0));
  const double t_draft = k == 0 ? 0.0 : prediction.speculation.draft / k;
  prediction.speedup =
      sampling::predicted_speedup(rate, k, t_draft, prediction.plain.target, prediction.speculation.target);
  return prediction;
}

// ---- Text

constexpr std::size_t passes_per_line = 8;

std::size_t name_width(const BenchResult& result) {
  std::size_t width = 20;
  for (const BenchResult::Mode& mode : result.modes) width = std::max(width, mode.name.size());
  return width + 1;
}

std::string number(const char* pattern, double value, std::size_t columns) {
  return pad_left(format(pattern, value), columns);
}

// Milliseconds with about four digits.
std::string milliseconds(double seconds, std::size_t columns) {
  const double value = 1e3 * seconds;
  return number(value < 10.0 ? "%.3f" : value < 100.0 ? "%.2f" : value < 1000.0 ? "%.1f" : "%.0f", value, columns);
}

std::string heading(const BenchResult& result) {
  return counted(result.num_prompts, result.are_questions ? "question" : "prompt") +
         (result.max_tokens == INT_MAX ? " without a token limit, "
                                       : " of at most " + counted(result.max_tokens, "token") + ", ") +
         counted(result.modes.front().rounds.size(), "round") + ", " +
         (result.interleaved ? "interleaved" : "one file after another") + ", " + counted(result.n_threads, "thread") +
         ",\n" + format("temperature %g", result.temperature) + ", seed " + std::to_string(result.seed) +
         "; median of the rounds, reading prompts not timed\n\n";
}

std::string file_name(const std::string& path) { return printable(std::filesystem::path(path).filename().string()); }

// What a figure depends on that is not an option.
std::string conditions(const BenchResult& result) {
  std::string text;
  for (const BenchResult::File& file : result.files)
    text += labelled("model", file_name(file.path) + ", " + size_text(file.bytes));
  return text + labelled("draft", file_name(result.draft)) +
         labelled("machine", result.processor + ", kernels " + result.isa) + labelled("program", result.program) + "\n";
}

std::string speed_table(const BenchResult& result) {
  const std::size_t width = name_width(result);
  std::string text = pad("mode", width) + " tokens/s       low - high  speedup  accepted  tokens/call\n";
  const double first = speed(result.modes.front()).median;
  for (const BenchResult::Mode& mode : result.modes) {
    const Speed tokens = speed(mode);
    const Stats stats = sum(mode);
    text += pad(mode.name, width) + number("%.1f", tokens.median, 9) +
            pad_left(format("%.1f - %.1f", tokens.low, tokens.high), 17) + number("%.2f", tokens.median / first, 9) +
            (mode.speculation ? number("%.3f", stats.acceptance_rate(), 10) : pad_left("-", 10)) +
            number("%.2f", stats.tokens_per_target_call(), 13) + "\n";
  }
  return text;
}

// The sizes of the other files compared with the first one.
std::string sizes(const BenchResult& result) {
  std::string text;
  const BenchResult::File& first = result.files.front();
  for (std::size_t at = 1; at < result.files.size(); ++at) {
    const BenchResult::File& file = result.files[at];
    text += "\n" + file.name +
            format(": %.2f times the size of ", static_cast<double>(file.bytes) / static_cast<double>(first.bytes)) +
            first.name + " (" + size_text(file.bytes) + ", " + size_text(first.bytes) + ")\n";
  }
  return text;
}

std::string pass_row(const std::string& name, const std::vector<double>& seconds, std::size_t from, std::size_t to,
                     std::size_t width) {
  std::string text = pad(name, width);
  for (std::size_t i = from; i < std::min(to, seconds.size()); ++i) text += milliseconds(seconds[i], 8);
  return text + "\n";
}

std::string pass_table(const BenchResult& result) {
  const std::size_t width = name_width(result);
  const std::size_t sizes = result.files.front().passes.target.size();
  std::string text;
  for (std::size_t from = 0; from < sizes; from += passes_per_line) {
    const std::size_t to = std::min(sizes, from + passes_per_line);
    text += "\n" + pad("ms per pass of", width);
    for (std::size_t n = from + 1; n <= to; ++n) text += pad_left(std::to_string(n), 8);
    text += to == 1 ? " token\n" : " tokens\n";
    for (const BenchResult::File& file : result.files) text += pass_row(file.name, file.passes.target, from, to, width);
    const double draft = result.files.back().passes.draft;
    if (from == 0 && draft > 0.0) text += pass_row("draft", {draft}, 0, 1, width);
  }
  return text;
}

std::string cycle_row(const std::string& name, const Cycle& cycle, std::size_t width) {
  std::string text = pad(name, width);
  for (const double seconds : {cycle.draft, cycle.target, cycle.sampling, cycle.rest, cycle.total()})
    text += milliseconds(seconds, 10);
  return text + "\n";
}

// Compares a mode with speculation with the mode before it.
std::string prediction_text(const BenchResult& result, std::size_t at) {
  const BenchResult::Mode &mode = result.modes[at], &plain = result.modes[at - 1];
  const Stats stats = sum(mode);
  const Prediction prediction = predict(stats, result.files[mode.file].passes);
  const Cycle cycle = measured_cycle(stats), plain_cycle = measured_cycle(sum(plain));
  const std::size_t width = name_width(result);
  std::string text = "\n" + mode.name + " over " + plain.name + ": speed predicted " +
                     format("%.2f", prediction.speedup) + ", measured " +
                     format("%.2f", speed(mode).median / speed(plain).median) +
                     format(" (K %.1f, ", prediction.num_draft_tokens) +
                     format("%.2f tokens per cycle)\n", prediction.tokens_per_call);
  text += pad("ms per cycle", width) + "     draft    target  sampling      rest     total\n";
  text += cycle_row("predicted", prediction.speculation, width) + cycle_row("measured", cycle, width);
  text +=
      cycle_row("  without, predicted", prediction.plain, width) + cycle_row("  without, measured", plain_cycle, width);
  return text;
}

// Whether a round of one mode was as fast as one of the other: then a difference of the medians may be luck.
bool overlap(const BenchResult::Mode& a, const BenchResult::Mode& b) {
  const Speed first = speed(a), second = speed(b);
  return first.low <= second.high && second.low <= first.high;
}

// The conclusion for the user: whether to draft, and with which file.
std::string verdict(const BenchResult& result) {
  constexpr double noticeable = 1.03;  // smaller differences occur between rounds
  const auto slower = [](const BenchResult::Mode& a, const BenchResult::Mode& b) {
    return speed(a).median < speed(b).median;
  };
  const BenchResult::Mode& fastest = *std::max_element(result.modes.begin(), result.modes.end(), slower);
  const BenchResult::Mode& first = result.modes.front();
  const double drafted = speed(result.modes[1]).median / speed(first).median;
  const std::string times = format("%.2f times", drafted) + " the speed without it";
  const bool is_close = drafted < noticeable && drafted > 1.0 / noticeable;
  std::string text = is_close                          ? "This draft makes no difference: " + times
                     : overlap(first, result.modes[1]) ? "No clear gain or loss: " + times + ", but the rounds overlap"
                     : drafted > 1.0                   ? "Use this draft: " + times
                                                       : "Do without this draft: " + times;
  if (result.files.size() > 1) {
    text += "\nFastest: " + fastest.name + format(", %.2f times ", speed(fastest).median / speed(first).median) +
            first.name;
  }
  return text;
}

// ---- JSON

Json cycle_json(const Cycle& cycle) {
  return {{"draft", cycle.draft},
          {"target", cycle.target},
          {"sampling", cycle.sampling},
          {"rest", cycle.rest},
          {"total", cycle.total()}};
}

Json prediction_json(const BenchResult& result, std::size_t at) {
  const BenchResult::Mode &mode = result.modes[at], &plain = result.modes[at - 1];
  const Stats stats = sum(mode);
  const Prediction prediction = predict(stats, result.files[mode.file].passes);
  return {{"over", plain.name},
          {"predicted_speedup", prediction.speedup},
          {"measured_speedup", speed(mode).median / speed(plain).median},
          {"num_draft_tokens", prediction.num_draft_tokens},
          {"predicted_cycle", cycle_json(prediction.speculation)},
          {"measured_cycle", cycle_json(measured_cycle(stats))},
          {"predicted_cycle_without", cycle_json(prediction.plain)},
          {"measured_cycle_without", cycle_json(measured_cycle(sum(plain)))}};
}

Json mode_json(const BenchResult& result, std::size_t at) {
  const BenchResult::Mode& mode = result.modes[at];
  const Speed tokens = speed(mode);
  Json rounds = Json::array();
  for (const Stats& stats : mode.rounds) rounds.push_back(stats.tokens_per_second());
  return {{"name", mode.name},
          {"file", result.files[mode.file].name},
          {"speculation", mode.speculation},
          {"tokens_per_second",
           {{"median", tokens.median}, {"low", tokens.low}, {"high", tokens.high}, {"rounds", rounds}}},
          {"speedup", tokens.median / speed(result.modes.front()).median},
          {"stats", statistics_json(sum(mode))},
          {"prediction", mode.speculation ? prediction_json(result, at) : Json(nullptr)}};
}

}  // namespace

std::string bench_text(const BenchResult& result) {
  std::string text = verdict(result) + "\n\n" + conditions(result) + heading(result) + speed_table(result) +
                     sizes(result) + pass_table(result);
  for (std::size_t at = 0; at < result.modes.size(); ++at) {
    if (result.modes[at].speculation) text += prediction_text(result, at);
  }
  return text +
         "\nPredicted: K draft passes of 1 token and a target pass of K + 1 tokens, each timed alone.\n"
         "Not included: sampling; the rest (KV caches, bookkeeping); the draft's passes of 2 tokens\n"
         "after full acceptance; the two models evicting each other from the CPU's caches.\n";
}

nlohmann::ordered_json bench_json(const BenchResult& result) {
  Json json = {{"verdict", verdict(result)},
               {"processor", result.processor},
               {"isa", result.isa},
               {"program", result.program},
               {"prompts", result.num_prompts},
               {"max_tokens", result.max_tokens},
               {"rounds", result.modes.front().rounds.size()},
               {"interleaved", result.interleaved},
               {"threads", result.n_threads},
               {"temperature", result.temperature},
               {"seed", result.seed},
               {"draft", {{"path", result.draft}, {"pass_seconds", result.files.back().passes.draft}}},
               {"files", Json::array()},
               {"modes", Json::array()}};
  for (const BenchResult::File& file : result.files) {
    json["files"].push_back(
        {{"name", file.name}, {"path", file.path}, {"bytes", file.bytes}, {"pass_seconds", file.passes.target}});
  }
  for (std::size_t at = 0; at < result.modes.size(); ++at) json["modes"].push_back(mode_json(result, at));
  return json;
}

}  // namespace specdec::cli
