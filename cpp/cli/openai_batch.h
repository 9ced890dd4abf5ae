// OpenAI's batch format: a line {"custom_id": ..., "method": "POST", "url": "/v1/chat/completions", "body": {...}} is a
// request to an endpoint, and its result has the endpoint's reply.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/model_requests.h"
#include "server/service.h"

namespace specdec::cli {

struct BatchCall {
  nlohmann::ordered_json custom_id, body;
  server::Endpoint endpoint = nullptr;
  bool is_generation = false;  // the reply depends on a seed
};

bool is_batch_call(const nlohmann::ordered_json& line);
// Throws std::invalid_argument.
BatchCall batch_call(const nlohmann::ordered_json& line);

struct BatchReply {
  nlohmann::ordered_json result;  // {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}
  std::vector<std::string> unknown_fields;  // of the body, perhaps misspelt
};

// Runs the request. Does not throw for a request that fails; server::ClientGone once is_cancelled.
BatchReply run_batch_call(server::Service& service, const BatchCall& call, std::int64_t index,
                          const std::function<bool()>& is_cancelled);

}  // namespace specdec::cli
