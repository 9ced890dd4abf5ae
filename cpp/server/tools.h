// Reads the tools of a chat from a request's body, and whether the answer may or must call them.
#pragma once

#include <memory>
#include <string>

#include "chat/chat_output.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

struct Tools {
  std::string json = "null";      // for templates, see Conversation
  std::string callable = "null";  // tools that may be called: all of them, or the one that must be
  ToolUse use;
};

// Converts the field "tools" of another API to the chat's form; function_of converts one tool. Null if there is none.
Json chat_tools(const Fields& body, Json (*function_of)(const Fields& tool));

// "tools", "tool_choice" and "parallel_tool_calls".
Tools read_tools(const Fields& body);

// Prepares the request for the answer to a conversation with these tools and returns the answer's parser; null: the
// answer is all content. A required call becomes the request's grammar. Throws ApiError if the request has another
// constraint or the model's template has no calls.
std::shared_ptr<const ChatOutputParser> prepare_answer(const Service& service, const Tools& tools,
                                                       Conversation conversation, Request& request);

}  // namespace specdec::server
