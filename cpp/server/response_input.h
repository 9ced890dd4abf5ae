// What OpenAI's responses have in place of a chat's messages and tools, in the form of a chat.
#pragma once

#include <map>
#include <string>

#include "server/json_body.h"

namespace specdec::server {

// "instructions" and "input", a string or a list of items, as messages: an assistant's reasoning, text and calls become
// one message, the output of a call one of the role "tool".
Json read_response_messages(const Fields& body);

// "tools" and "tool_choice", whose functions are not in an object of their own. Those of a namespace have it before
// their names. Tools that OpenAI runs are left out: the model is not told of them.
struct ResponseTools {
  Json chat;                                  // the chat API's; null: none
  std::map<std::string, Json> of_namespaces;  // {"namespace": ..., "name": ...} by the chat API's name
};
ResponseTools read_response_tools(const Fields& body);
Json read_response_tool_choice(const Fields& body);

}  // namespace specdec::server
