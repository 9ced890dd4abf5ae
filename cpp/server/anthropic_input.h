// Converts the fields of Anthropic's messages to those of a chat.
#pragma once

#include "server/json_body.h"

namespace specdec::server {

// A body of /v1/messages as a chat's: "messages" (with "system" as the first; results of tools are separate messages),
// "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs". Unsupported fields that would change the
// answer are errors.
Json read_anthropic_chat(const Fields& body);

}  // namespace specdec::server
