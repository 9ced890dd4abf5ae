// An OpenAI-compatible server over one or several models; its endpoints are in routes.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <thread>

#include "server/http_server.h"
#include "server/model_pool.h"

namespace specdec::server {

class Server {
 public:
  // Listens and serves from here on. on_failure: called, on any thread, with errors that no client caused. Throws Error
  // if the port cannot be used or the system cannot start threads.
  Server(ModelPool& models, const HttpOptions& http, std::function<void(const std::string&)> on_failure);
  ~Server();  // ends all requests
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  bool has_failed() const { return http_.has_failed(); }  // no more connections are accepted

  void refuse_requests() { models_.close_queue(); }                  // replies 503 from here on
  std::size_t num_unfinished() { return models_.num_unfinished(); }  // requests that run or wait

 private:
  ModelPool& models_;
  HttpServer http_;
  int port_;
  std::thread thread_;
};

}  // namespace specdec::server
