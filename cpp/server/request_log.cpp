#include "server/request_log.h"

#include <cmath>

#include "base/argument.h"
#include "base/utf8.h"
#include "server/json_body.h"
#include "server/replies.h"

namespace specdec::server {
namespace {

constexpr std::size_t most_of_path = 200;  // bytes: a client chooses it

std::string path_of(const RequestRecord& record) {
  const bool is_long = record.path.size() > most_of_path;
  return printable(record.path.substr(0, most_of_path)) + (is_long ? "..." : "");
}

// "2026-01-31T23:59:59Z". Years begin in March here, so that a leap day is the last one.
std::string rfc3339(std::int64_t unix_seconds) {
  constexpr std::int64_t day_seconds = 24 * 60 * 60, days_of_400_years = 146097, days_to_1970 = 719468;
  const std::int64_t second = unix_seconds % day_seconds, days = unix_seconds / day_seconds + days_to_1970;
  const std::int64_t era = days / days_of_400_years, day_of_era = days % days_of_400_years;
  const std::int64_t year = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const std::int64_t day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
  const std::int64_t month = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * month + 2) / 5 + 1;
  const auto two_digits = [](std::int64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  return std::to_string(400 * era + year + (month > 9 ? 1 : 0)) + "-" + two_digits(month > 9 ? month - 9 : month + 3) +
         "-" + two_digits(day) + "T" + two_digits(second / 3600) + ":" + two_digits(second / 60 % 60) + ":" +
         two_digits(second % 60) + "Z";
}

double rounded(double value, double unit) { return std::round(value / unit) * unit; }

bool has_answer(const RequestRecord& record) { return record.stats.prompt_tokens > 0; }

}  // namespace

bool is_worth_logging(const RequestRecord& record) {
  const bool is_check = record.path == "/health" || record.path == "/v1/health" || record.path == "/metrics";
  return record.status != 0 && (!is_check || record.status >= 400);
}

std::string text_line(const RequestRecord& record) {
  std::string line = rfc3339(record.unix_ms / 1000) + " " + std::to_string(record.status) + " " + record.method + " " +
                     path_of(record) + " " + number_text(rounded(record.seconds, 1e-3)) + " s";
  if (!record.model.empty()) line += ", " + printable(record.model);
  if (!has_answer(record)) return line;
  const Stats& stats = record.stats;
  line += ", prompt " + std::to_string(stats.prompt_tokens) + " tokens (" + std::to_string(stats.prompt_cached_tokens) +
          " cached), answer " + std::to_string(stats.tokens) + " at " +
          number_text(rounded(stats.tokens_per_second(), 0.1)) + "/s";
  if (stats.drafted > 0)
    line += ", " + std::to_string(stats.accepted) + " of " + std::to_string(stats.drafted) + " drafts accepted";
  return line;
}

std::string json_line(const RequestRecord& record) {
  Json json = {{"time", rfc3339(record.unix_ms / 1000)},
               {"method", record.method},
               {"path", path_of(record)},
               {"status", record.status},
               {"seconds", rounded(record.seconds, 1e-6)}};
  if (!record.model.empty()) json["model"] = record.model;
  if (has_answer(record)) {
    const Stats& stats = record.stats;
    json.update({{"prompt_tokens", stats.prompt_tokens},
                 {"cached_tokens", stats.prompt_cached_tokens},
                 {"generated_tokens", stats.tokens},
                 {"tokens_per_second", rounded(stats.tokens_per_second(), 1e-3)},
                 {"drafted_tokens", stats.drafted},
                 {"accepted_tokens", stats.accepted}});
  }
  return to_text(json);
}

}  // namespace specdec::server
