// A line of a file of prompts: {"prompt": "...", ...} with options for only that prompt, named as in Python's
// Generator.stream; null means not given. The prompt is a string or a list of token ids.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/request.h"

namespace specdec::cli {

struct PromptLine {
  Request request;
  nlohmann::ordered_json id;  // the line's "id", repeated in its result; null: none
};

// A line as JSON: an object, not nested too deep. Throws std::invalid_argument.
nlohmann::ordered_json parse_line(const std::string& line);

// Options that the line does not name are taken from `defaults`. Throws std::invalid_argument.
PromptLine prompt_line(const nlohmann::ordered_json& line, const Request& defaults);

}  // namespace specdec::cli
