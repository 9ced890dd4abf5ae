// Tool calls that a model writes as JSON, bare or in a fenced block, because its template has no form of its own:
// {"name": "f", "arguments": {...}}, lists of these, and the forms of OpenAI's API.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chat/chat_output.h"

namespace specdec {

// The names of functions in a list of tools, in JSON.
std::set<std::string> tool_names(const std::string& tools);

// Where calls may begin in a text; npos: nowhere. Whether they are calls is known only when the text is complete.
std::size_t start_of_json_calls(const std::string& text);

// The calls in a complete text from there on; nullopt if there is anything else, or if a function is not one of these.
std::optional<std::vector<ToolCall>> json_calls(const std::string& text, const std::set<std::string>& names);

// A JSON schema of a call of one of these tools. Throws std::invalid_argument.
std::string schema_of_json_call(const std::string& tools);

}  // namespace specdec
