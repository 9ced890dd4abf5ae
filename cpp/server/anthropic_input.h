// What Anthropic's messages have in place of a chat's fields, in the form of a chat.
#pragma once

#include "server/json_body.h"

namespace specdec::server {

// A body of /v1/messages as one of a chat: "messages" (with "system" as the first; results of tools are messages of
// their own), "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs". Fields that would change the
// answer and that this server lacks are errors.
Json read_anthropic_chat(const Fields& body);

}  // namespace specdec::server
