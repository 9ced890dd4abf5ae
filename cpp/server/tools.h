// The tools of a chat, as fields of a request's body: which there are, and whether the answer may or must call them.
#pragma once

#include <memory>
#include <string>

#include "chat/chat_output.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

struct Tools {
  std::string json = "null";      // those that templates get, see Conversation
  std::string callable = "null";  // those that may be called: all of them, or the one that must be
  ToolUse use;
};

// The field "tools" of another API, as chats have it; function_of: of one of them. Null if there is none.
Json chat_tools(const Fields& body, Json (*function_of)(const Fields& tool));

// "tools", "tool_choice" and "parallel_tool_calls".
Tools read_tools(const Fields& body);

// For the answer to a conversation with these tools: how to take it apart; null: all of it is content. A call that is
// required becomes the request's grammar. Throws ApiError if the request has another constraint, or the model's
// template has no calls.
std::shared_ptr<const ChatOutputParser> prepare_answer(const Service& service, const Tools& tools,
                                                       Conversation conversation, Request& request);

}  // namespace specdec::server
