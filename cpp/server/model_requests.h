// Which model answers a request, and how the request waits until that is loaded.
#pragma once

#include "server/http_server.h"
#include "server/model_pool.h"

namespace specdec::server {

using Endpoint = HttpReply (*)(Service& service, const HttpRequest& http);

// Runs an endpoint on the model that the field "model" (or the query) names, if there are several. A stream that waits
// for the model for long begins meanwhile, with pings. Throws as the endpoint and ModelPool::use do.
HttpReply answer(ModelPool& pool, Endpoint endpoint, const HttpRequest& http);

// The same for endpoints that only tell something: a model that is not loaded is an error, so that nothing waits.
HttpReply answer_if_loaded(ModelPool& pool, Endpoint endpoint, const HttpRequest& http);

}  // namespace specdec::server
