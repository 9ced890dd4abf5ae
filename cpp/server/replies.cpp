#include "server/replies.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>

#include "base/utf8.h"
#include "server/tokens.h"

namespace specdec::server {
namespace {

double ms_each(std::int64_t count, double seconds) {
  return count > 0 ? 1e3 * seconds / static_cast<double>(count) : 0.0;
}

Json token_json(const Generator& generator, Token token, double logprob) {
  const std::string bytes = generator.vocabulary().piece(token);
  return {{"id", token}, {"token", valid_utf8(bytes)}, {"bytes", bytes_json(bytes)}, {"logprob", logprob}};
}

}  // namespace

HttpReply json_reply(const Json& json) {
  HttpReply reply;
  reply.body = to_text(json);
  return reply;
}

std::string new_id(const std::string& prefix) {
  static constexpr char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 random{std::random_device()()};
  std::uniform_int_distribution<std::size_t> index(0, sizeof letters - 2);
  std::string id = prefix;
  for (int i = 0; i < 32; ++i) id += letters[index(random)];
  return id;
}

// Avoids std::gmtime, whose result all threads share. Years begin in March here, so that a leap day is the year's last
// day.
std::string rfc3339(std::int64_t unix_time) {
  constexpr std::int64_t day_seconds = 24 * 60 * 60, days_of_400_years = 146097, days_to_1970 = 719468;
  const std::int64_t time = std::max<std::int64_t>(unix_time, 0), second = time % day_seconds;
  const std::int64_t days = time / day_seconds + days_to_1970;  // since March of the year 0
  const std::int64_t era = days / days_of_400_years, day_of_era = days % days_of_400_years;
  const std::int64_t year = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const std::int64_t day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
  const std::int64_t month = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * month + 2) / 5 + 1;
  const auto part = [](std::int64_t value) { return static_cast<int>(value); };
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", part(400 * era + year + (month > 9 ? 1 : 0)),
                part(month > 9 ? month - 9 : month + 3), part(day), part(second / 3600), part(second / 60 % 60),
                part(second % 60));
  return text;
}

std::int64_t unix_time() { return static_cast<std::int64_t>(std::time(nullptr)); }

Json reply_heading(const Service& service, const std::string& id_prefix, const char* object) {
  return {{"id", new_id(id_prefix)},
          {"object", object},
          {"created", unix_time()},
          {"model", service.options().model_name},
          {"system_fingerprint", service.system_fingerprint()}};
}

Json finish_reason_json(const std::optional<FinishReason>& reason) {
  if (!reason) return nullptr;
  return *reason == FinishReason::stop ? "stop" : "length";
}

void add_prediction(const Stats& stats, Usage& usage) {
  usage.accepted_prediction_tokens += stats.accepted_predicted;
  usage.rejected_prediction_tokens += stats.drafted_predicted - stats.accepted_predicted;
}

Json to_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", usage.reasoning_tokens},
            {"accepted_prediction_tokens", usage.accepted_prediction_tokens},
            {"rejected_prediction_tokens", usage.rejected_prediction_tokens}}}};
}

Json timings_json(const Stats& stats) {
  const std::int64_t num_read = stats.prompt_tokens_read();
  return {{"cache_n", stats.prompt_cached_tokens},
          {"prompt_n", num_read},
          {"prompt_ms", 1e3 * stats.prompt_seconds},
          {"prompt_per_token_ms", ms_each(num_read, stats.prompt_seconds)},
          {"prompt_per_second",
           num_read > 1 ? stats.prompt_tokens_per_second() : 0.0},  // the first cycle reads the last one
          {"predicted_n", stats.tokens},
          {"predicted_ms", 1e3 * stats.seconds},
          {"predicted_per_token_ms", ms_each(stats.tokens, stats.seconds)},
          {"predicted_per_second", stats.tokens_per_second()},
          {"draft_n", stats.drafted},
          {"draft_n_accepted", stats.accepted}};
}

Json to_json(const PromptProgress& progress) {
  return {{"total", progress.all},
          {"cache", progress.cached},
          {"processed", progress.read},
          {"time_ms", std::llround(1e3 * progress.seconds)}};
}

Json logprob_json(const Generator& generator, const Piece& piece) {
  Json json = token_json(generator, piece.token, piece.logprob);
  json["top_logprobs"] = Json::array();
  for (const sampling::TokenLogprob& one : piece.top_logprobs)
    json["top_logprobs"].push_back(token_json(generator, one.token, one.logprob));
  return json;
}

}  // namespace specdec::server
