// Parts of replies that several endpoints share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/generation.h"
#include "server/http_server.h"
#include "server/json_body.h"

namespace specdec::server {

HttpReply json_reply(const Json& json);

// "chatcmpl-" and 32 random letters and digits.
std::string new_id(const std::string& prefix);
std::int64_t unix_time();                     // seconds
std::string rfc3339(std::int64_t unix_time);  // "2026-01-31T23:59:59Z"

// The beginning of chats and completions: id, object, created, model, system_fingerprint.
Json reply_heading(const Service& service, const std::string& id_prefix, const char* object);

// The OpenAI API's "stop" or "length"; null: not finished.
Json finish_reason_json(const std::optional<FinishReason>& reason);

// {"prompt_tokens": ...}. A prompt counts once for all its answers. reasoning_tokens: a part of completion_tokens.
struct Usage {
  // Drafts from a prediction: accepted, and drafted in vain.
  std::int64_t accepted_prediction_tokens = 0, rejected_prediction_tokens = 0;
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
};
void add_prediction(const Stats& stats, Usage& usage);
Json to_json(const Usage& usage);

// llama-server's "timings" and "prompt_progress".
Json timings_json(const Stats& stats);
Json to_json(const PromptProgress& progress);

// One token with its log-probability, in the chat API's form: {"id", "token", "bytes", "logprob", "top_logprobs"}.
Json logprob_json(const Generator& generator, const Piece& piece);

}  // namespace specdec::server
