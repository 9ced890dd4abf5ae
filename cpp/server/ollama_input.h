// What Ollama's requests have in place of OpenAI's fields, in the form of a chat.
#pragma once

#include "engine/request.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

// A body of /api/chat as one of a chat: "messages", whose calls and results of tools get ids where they have none,
// "tools", and "chat_template_kwargs" of "think".
Json read_ollama_chat(const Fields& body);

// The same of /api/generate: "system" and "prompt".
Json read_ollama_prompt(const Fields& body);

// "options", "format", "logprobs" and "top_logprobs". Fields that would change the answer and that this server lacks
// are errors.
Request read_ollama_options(const Service& service, const Fields& body);

}  // namespace specdec::server
