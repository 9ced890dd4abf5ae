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
// "num_ctx" of the options if it is smaller than the server's context; 0: the server's. The record gets a note if it is
// larger.
int read_num_ctx(const Service& service, const Fields& body, RequestRecord* record);
Request read_ollama_options(const Service& service, const Fields& body, RequestRecord* record);

}  // namespace specdec::server
