// Checks how long a request has taken and whether its client still waits.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "server/api_error.h"
#include "server/http_server.h"

namespace specdec::server {

class Deadline {
 public:
  // seconds: 0 for no limit. what: the beginning of the error, before "N seconds".
  Deadline(Client client, int seconds, std::string what = "the request took longer than")
      : client_(std::move(client)), limit_(seconds), what_(std::move(what)) {}

  std::chrono::steady_clock::duration waited() const { return std::chrono::steady_clock::now() - start_; }

  // Throws ClientGone or ApiError.
  void check() const { check(what_ + " " + std::to_string(limit_.count()) + " seconds"); }
  void check(const std::string& message) const {
    if (client_()) throw ClientGone();
    if (limit_.count() > 0 && waited() > limit_) throw ApiError(504, "timeout_error", message);
  }

 private:
  const Client client_;
  const std::chrono::seconds limit_;
  const std::string what_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace specdec::server
