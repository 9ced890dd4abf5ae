// Maps paths to endpoints.
#pragma once

#include "server/http_server.h"
#include "server/model_pool.h"

namespace specdec::server {

// The pool must outlive the server's run().
void add_routes(HttpServer& http, ModelPool& pool);

}  // namespace specdec::server
