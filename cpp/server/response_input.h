// Converts the fields of OpenAI's responses to a chat's messages and tools.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/json_body.h"

namespace specdec::server {

// Converts "instructions" and "input" (a string or a list of items) to messages: an assistant's reasoning, text and
// calls become one message, the output of a call becomes a message with the role "tool".
Json read_response_messages(const Fields& body);

// "tools" and "tool_choice"; their functions are not in a separate object. The names of functions in a namespace are
// prefixed with it. Tools that OpenAI runs are left out, so the model does not know of them.
struct ResponseTools {
  Json chat;                                  // in the chat API's form; null: none
  std::map<std::string, Json> of_namespaces;  // {"namespace": ..., "name": ...} by the chat API's name
  // Further tools that the model cannot use, which are left out if there are functions, too: place and type.
  std::vector<std::pair<std::string, std::string>> left_out;
};
ResponseTools read_response_tools(const Fields& body);
Json read_response_tool_choice(const Fields& body);

}  // namespace specdec::server
