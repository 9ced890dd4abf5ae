// Converts the fields of Ollama's requests to those of a chat.
#pragma once

#include "engine/request.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

// A body of /api/chat as a chat's: "messages" (calls and results of tools get ids if they have none), "tools", and
// "chat_template_kwargs" from "think".
Json read_ollama_chat(const Fields& body);

// The same for /api/generate: "system" and "prompt".
Json read_ollama_prompt(const Fields& body);

// Reads "options", "format", "logprobs" and "top_logprobs". Unsupported fields that would change the answer are errors.
Request read_ollama_options(const Service& service, const Fields& body, RequestRecord* record);

}  // namespace specdec::server
