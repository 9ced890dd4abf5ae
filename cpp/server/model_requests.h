// Chooses the model that answers a request, and lets the request wait until it is loaded.
#pragma once

#include "server/http_server.h"
#include "server/model_pool.h"

namespace specdec::server {

using Endpoint = HttpReply (*)(Service& service, const HttpRequest& http);

// Runs an endpoint on the model that the field "model" (or the query) names, if there are several. A stream that has to
// wait for long begins with pings meanwhile. Throws what the endpoint and ModelPool::use throw.
HttpReply answer(ModelPool& pool, Endpoint endpoint, const HttpRequest& http);

// The same for endpoints that only report something: a model that is not loaded is an error, so that nothing waits.
HttpReply answer_if_loaded(ModelPool& pool, Endpoint endpoint, const HttpRequest& http);

}  // namespace specdec::server
