// What OpenAI's responses have in place of a chat's messages and tools, in the form of a chat.
#pragma once

#include "server/json_body.h"

namespace specdec::server {

// "instructions" and "input", a string or a list of items, as messages: an assistant's reasoning, text and calls become
// one message, the output of a call one of the role "tool".
Json read_response_messages(const Fields& body);

// "tools" and "tool_choice", whose functions are not in an object of their own.
Json read_response_tools(const Fields& body);
Json read_response_tool_choice(const Fields& body);

}  // namespace specdec::server
