#include "server/server.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "server/routes.h"

namespace specdec::server {

Server::Server(Generator& generator, int max_queue_size, const HttpOptions& http, ServiceOptions service,
               std::function<void(const std::string&)> on_failure)
    : service_(generator, max_queue_size, std::move(service)), http_(http, std::move(on_failure)) {
  add_routes(http_, service_);
  port_ = http_.listen();
  try {
    thread_ = std::thread([this] { http_.run(); });
  } catch (const std::system_error&) {
    throw Error(too_few_threads);
  }
}

Server::~Server() {
  refuse_requests();
  service_.cancel_all();
  http_.stop();
  thread_.join();
}

}  // namespace specdec::server
