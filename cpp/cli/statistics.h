// The statistics of a generation as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "speculative/stats.h"

namespace specdec::cli {

// 80 columns. drafting: a sentence about the use of drafts.
std::string statistics_text(const Stats& stats, const std::string& drafting);
nlohmann::ordered_json statistics_json(const Stats& stats);  // the names are those of Stats in Python

}  // namespace specdec::cli
