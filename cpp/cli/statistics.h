// The statistics of a generation as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "speculative/stats.h"

namespace specdec::cli {

constexpr int min_timed_tokens = 8;  // a rate from fewer tokens is meaningless

// The gain from drafts: tokens per second times the seconds of a token without drafts (0: unknown). 0 if not measured:
// no drafts or too few tokens.
double measured_gain(const Stats& stats, double plain_seconds);

// Rows of a report (labelled()). drafting: a sentence about the use of drafts (engine/drafting_report.h). draft_window:
// tokens; 0: there is no draft model.
std::string drafting_text(const std::string& drafting);
std::string statistics_text(const Stats& stats, const std::string& drafting, int draft_window, double plain_seconds);
// The names are those of Python's Stats. drafting: empty for several requests.
nlohmann::ordered_json statistics_json(const Stats& stats, const std::string& drafting = "");

}  // namespace specdec::cli
