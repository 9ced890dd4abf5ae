// The grammar of a tool call: how a template writes it (chat/chat_output.h), with rules of ours for the arguments.
#pragma once

#include <string>
#include <vector>

#include "chat/chat_output.h"
#include "chat/tool_schemas.h"
#include "engine/request.h"

namespace specdec {

// Throws ArgumentError "tools ..." that names the function and the place in its parameters.
Request::Call call_grammar(const ToolSchemas& tools, const ChatOutputParser::Grammar& grammar);

// The keywords that a schema of calls in JSON (chat/json_calls.h) does not enforce, for people. Throws the same.
std::vector<std::string> checked_schemas(const ToolSchemas& tools, const std::string& schema_of_calls);

}  // namespace specdec
