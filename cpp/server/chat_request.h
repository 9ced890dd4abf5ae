// A chat request, from a request's body to what the engine runs. Used by /v1/chat/completions and by the batches of the
// command line, so that both read conversations in the same way.
#pragma once

#include <memory>

#include "server/http_server.h"
#include "server/json_body.h"
#include "server/service.h"
#include "server/tools.h"

namespace specdec::server {

struct ChatRequest {
  Request request;
  Tools tools;
  std::shared_ptr<const ChatOutputParser> parser;  // of answers; null: answers are all content

  bool ends_after_call() const { return parser != nullptr && !tools.use.is_parallel; }
};

// client: asked, while a long prompt is tokenized, whether it has gone. Throws ApiError and what Chat::tokens throws.
ChatRequest read_chat_request(const Service& service, const Fields& body, const Client& client);

}  // namespace specdec::server
