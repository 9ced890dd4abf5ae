#include "cli/statistics.h"

#include <nlohmann/json.hpp>

#include "cli/terminal/format.h"
#include "cli/terminal/output.h"

namespace specdec::cli {
namespace {

long long whole(std::int64_t value) { return value; }

// "draft 0.32 (26 %)"
std::string share(const char* name, double seconds, double all) {
  return format("%s %.2f s (%.0f %%)", name, seconds, all > 0.0 ? 100.0 * seconds / all : 0.0);
}

// Time outside passes and sampling: bookkeeping, text and printing.
double other_seconds(const Stats& stats) {
  return stats.seconds - stats.draft_seconds - stats.target_seconds - stats.sampling_seconds;
}

// Until drafts were verified, the expectation of "auto" is only a guess.
std::string measured_drafting(const Stats& stats, const std::string& drafting) {
  constexpr std::int64_t enough = 32;
  if (stats.drafted >= enough || drafting.rfind("on: should", 0) != 0) return drafting;
  return "on: what drafts gain is not measured yet (" + std::to_string(stats.accepted) + " of " +
         counted(stats.drafted, "draft") + " accepted)";
}

}  // namespace

double measured_gain(const Stats& stats, double plain_seconds) {
  constexpr std::int64_t enough = 32;
  return stats.drafted > 0 && stats.tokens >= enough ? plain_seconds * stats.tokens_per_second() : 0.0;
}

std::string drafting_text(const std::string& drafting) { return labelled("drafting", drafting); }

std::string statistics_text(const Stats& stats, const std::string& drafting, int draft_window, double plain_seconds) {
  std::string prompt =
      counted(stats.prompt_tokens, "token") +
      format(" (%lld of them cached) in %.2f s", whole(stats.prompt_cached_tokens), stats.prompt_seconds);
  // The last token is read with the output.
  if (stats.prompt_tokens_read() > 1) prompt += format(", %.1f tokens/s", stats.prompt_tokens_per_second());
  std::string text = labelled("prompt", prompt);
  text += labelled("output", counted(stats.tokens, "token") +
                                 format(" in %.2f s, %.1f tokens/s", stats.seconds, stats.tokens_per_second()));
  if (stats.drafted > 0) {
    text += labelled("drafts", format("%lld proposed, %lld accepted: acceptance rate %.2f", whole(stats.drafted),
                                      whole(stats.accepted), stats.acceptance_rate()));
  }
  if (stats.drafted_copies > 0) {
    text += labelled("copies", format("%lld of these proposed, %lld accepted", whole(stats.drafted_copies),
                                      whole(stats.accepted_copies)));
  }
  if (const double gain = measured_gain(stats, plain_seconds); gain > 0.0) {
    text += labelled("gain", format("%.1f times plain decoding, which makes %.1f tokens/s", gain, 1.0 / plain_seconds));
  }
  if (draft_window > 0 && stats.prompt_tokens > draft_window) {
    text += labelled("window", "the draft model reads the last " + counted(draft_window, "token") + ": " +
                                   format("%lld so far", whole(stats.draft_tokens_read)));
  }
  text += drafting_text(measured_drafting(stats, drafting));
  text += labelled(
      "target", counted(stats.target_calls, "call") + format(", %.2f tokens per call", stats.tokens_per_target_call()));
  return text + labelled("time", share("draft", stats.draft_seconds, stats.seconds) + ", " +
                                     share("target", stats.target_seconds, stats.seconds) + ", " +
                                     share("sampling", stats.sampling_seconds, stats.seconds) + ", " +
                                     share("other", other_seconds(stats), stats.seconds));
}

nlohmann::ordered_json statistics_json(const Stats& stats, const std::string& drafting) {
  nlohmann::ordered_json json;
  for_each_field(stats, [&](const char* name, auto value) { json[name] = value; });
  json["acceptance_rate"] = stats.acceptance_rate();
  json["tokens_per_target_call"] = stats.tokens_per_target_call();
  json["tokens_per_second"] = stats.tokens_per_second();
  if (!drafting.empty()) json["drafting"] = drafting;
  return json;
}

}  // namespace specdec::cli
