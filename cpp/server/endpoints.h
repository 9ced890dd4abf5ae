// The endpoints that generate text, one file each, and those that say how the server is.
#pragma once

#include "server/http_server.h"
#include "server/service.h"

namespace specdec::server {

// Throw ApiError and what the engine throws (to_api_error).
HttpReply chat_completions(Service& service, const HttpRequest& http);  // OpenAI's /v1/chat/completions
HttpReply completions(Service& service, const HttpRequest& http);       // OpenAI's /v1/completions
HttpReply responses(Service& service, const HttpRequest& http);         // OpenAI's /v1/responses
HttpReply embeddings(Service& service, const HttpRequest& http);        // OpenAI's /v1/embeddings
HttpReply llama_completion(Service& service, const HttpRequest& http);  // llama-server's /completion
HttpReply llama_infill(Service& service, const HttpRequest& http);      // llama-server's /infill

HttpReply anthropic_messages(Service& service, const HttpRequest& http);      // Anthropic's /v1/messages
HttpReply anthropic_count_tokens(Service& service, const HttpRequest& http);  // {"input_tokens": ...}

HttpReply ollama_chat(Service& service, const HttpRequest& http);  // Ollama's /api/...
HttpReply ollama_generate(Service& service, const HttpRequest& http);
HttpReply ollama_embed(Service& service, const HttpRequest& http);
HttpReply ollama_embeddings(Service& service, const HttpRequest& http);
HttpReply ollama_show(Service& service, const HttpRequest& http);
HttpReply ollama_tags(Service& service);
HttpReply ollama_ps(Service& service);
HttpReply ollama_version(Service& service);

HttpReply page(Service& service);  // for browsers
HttpReply health(Service& service);
HttpReply models(Service& service);
HttpReply model(Service& service, const HttpRequest& http);
HttpReply props(Service& service);
HttpReply slots(Service& service);
HttpReply metrics(Service& service);

}  // namespace specdec::server
