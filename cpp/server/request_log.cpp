#include "server/request_log.h"

#include <cmath>

#include "base/argument.h"
#include "base/utf8.h"
#include "server/json_body.h"
#include "server/replies.h"

namespace specdec::server {
namespace {

constexpr std::size_t most_of_path = 200;  // bytes; the client chooses the path

std::string path_of(const RequestRecord& record) {
  const bool is_long = record.path.size() > most_of_path;
  return printable(record.path.substr(0, most_of_path)) + (is_long ? "..." : "");
}

double rounded(double value, double unit) { return std::round(value / unit) * unit; }

std::string answer_text(const Stats& stats) {
  std::string text = "prompt " + std::to_string(stats.prompt_tokens) + " tokens (" +
                     std::to_string(stats.prompt_cached_tokens) + " cached), answer " + std::to_string(stats.tokens) +
                     " at " + number_text(rounded(stats.tokens_per_second(), 0.1)) + "/s";
  if (stats.drafted > 0)
    text += ", " + std::to_string(stats.accepted) + " of " + std::to_string(stats.drafted) + " drafts accepted";
  return text;
}

// The first unknown fields, whose names the client chooses.
std::vector<std::string> shown_fields(const RequestRecord& record) {
  constexpr std::size_t most = 8, most_bytes = 40;
  std::vector<std::string> names;
  for (const std::string& name : record.unknown_fields) {
    if (names.size() == most) {
      names.emplace_back("...");
      break;
    }
    names.push_back(printable(name.substr(0, most_bytes)) + (name.size() > most_bytes ? "..." : ""));
  }
  return names;
}

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
  if (has_answer(record)) line += ", " + answer_text(record.stats);
  const std::vector<std::string> names = shown_fields(record);
  for (std::size_t i = 0; i < names.size(); ++i) line += (i == 0 ? ", unknown fields: " : " ") + names[i];
  for (const std::string& note : record.notes) line += ", " + printable(note);
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
  if (!record.unknown_fields.empty()) json["unknown_fields"] = shown_fields(record);
  if (!record.notes.empty()) json["notes"] = record.notes;
  return to_text(json);
}

}  // namespace specdec::server
