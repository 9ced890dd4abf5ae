#include "server/server.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "server/routes.h"

namespace specdec::server {

Server::Server(ModelPool& models, const HttpOptions& http, std::function<void(const std::string&)> on_failure)
    : models_(models), http_(http, std::move(on_failure)) {
  add_routes(http_, models_);
  port_ = http_.listen();
  try {
    thread_ = std::thread([this] { http_.run(); });
  } catch (const std::system_error&) {
    throw Error(too_few_threads);
  }
}

Server::~Server() {
  refuse_requests();
  models_.cancel_all();
  http_.stop();
  thread_.join();
}

}  // namespace specdec::server
