// Which path leads to which endpoint.
#pragma once

#include "server/http_server.h"
#include "server/service.h"

namespace specdec::server {

// The service must outlive the server's run().
void add_routes(HttpServer& http, Service& service);

}  // namespace specdec::server
