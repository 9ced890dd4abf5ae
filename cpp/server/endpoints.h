// The endpoints that generate text, one file each, and those that report on the server and its models.
#pragma once

#include "server/http_server.h"
#include "server/model_pool.h"
#include "server/model_requests.h"
#include "server/service.h"

namespace specdec::server {

// They throw ApiError and what the engine throws (to_api_error).
HttpReply chat_completions(Service& service, const HttpRequest& http);  // OpenAI's /v1/chat/completions
HttpReply completions(Service& service, const HttpRequest& http);       // OpenAI's /v1/completions
HttpReply responses(Service& service, const HttpRequest& http);         // OpenAI's /v1/responses
HttpReply embeddings(Service& service, const HttpRequest& http);        // OpenAI's /v1/embeddings
HttpReply scores(Service& service, const HttpRequest& http);            // SGLang's /v1/score
HttpReply any_completion(Service& service, const HttpRequest& http);
HttpReply any_embeddings(Service& service, const HttpRequest& http);
HttpReply llama_completion(Service& service, const HttpRequest& http);  // llama-server's /completion
HttpReply llama_infill(Service& service, const HttpRequest& http);      // llama-server's /infill

HttpReply anthropic_messages(Service& service, const HttpRequest& http);      // Anthropic's /v1/messages
HttpReply anthropic_count_tokens(Service& service, const HttpRequest& http);  // {"input_tokens": ...}

HttpReply ollama_chat(Service& service, const HttpRequest& http);  // Ollama's /api/...
HttpReply ollama_generate(Service& service, const HttpRequest& http);
HttpReply ollama_embed(Service& service, const HttpRequest& http);
HttpReply ollama_embeddings(Service& service, const HttpRequest& http);
HttpReply ollama_show(Service& service, const HttpRequest& http);

HttpReply slot_action(Service& service, const HttpRequest& http);  // /slots/N?action=save, restore or erase

HttpReply ollama_tags(ModelPool& pool, const HttpRequest& http);
HttpReply ollama_ps(ModelPool& pool, const HttpRequest& http);
HttpReply ollama_version(ModelPool& pool, const HttpRequest& http);
HttpReply page(ModelPool& pool, const HttpRequest& http);  // for browsers
HttpReply health(ModelPool& pool, const HttpRequest& http);
HttpReply models(ModelPool& pool, const HttpRequest& http);
HttpReply model(ModelPool& pool, const HttpRequest& http);
HttpReply load_model(ModelPool& pool, const HttpRequest& http);  // /models/load and /models/unload
HttpReply unload_model(ModelPool& pool, const HttpRequest& http);
HttpReply props(ModelPool& pool, const HttpRequest& http);
HttpReply slots(Service& service, const HttpRequest& http);
HttpReply metrics(ModelPool& pool, const HttpRequest& http);

}  // namespace specdec::server
