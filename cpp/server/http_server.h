// HTTP/1.1 (and 1.0): accepts connections, reads bodies, and sends what handlers return. server/border.h says which
// requests are served.
// Connections wait for a complete request in server/waiting_room.h. Only these two files use cpp-httplib.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/request_log.h"

namespace specdec::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                   // 0: a free one
  int num_threads = 64;              // requests with a body that are served at once; others wait
  std::size_t max_body = 32u << 20;  // bytes
  int patience = 20;  // seconds that a client may take to send all headers, or to send or accept the next bytes
  std::vector<std::string> api_keys;                     // none: everyone may use the server
  std::vector<std::string> cors_origins, allowed_hosts;  // see server/border.h
  std::function<void(const RequestRecord&)> log;  // called after each reply, on any thread; null: nothing is logged
};

// The client that waits for a reply. is_gone() tells, until the reply is sent, whether it has closed the connection.
struct Client {
  std::function<bool()> is_gone;
  std::shared_ptr<RequestRecord> record = std::make_shared<RequestRecord>();  // what the log will say; never null

  bool operator()() const { return is_gone(); }
};

struct HttpRequest {
  std::string method, path, body;
  Client is_gone;
  std::map<std::string, std::string> query;                    // the first value of each name
  mutable std::shared_ptr<const nlohmann::ordered_json> json;  // the body, once body_of() has read it

  // Empty if there is no such name.
  std::string query_value(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? "" : found->second;
  }
};

using Headers = std::vector<std::pair<std::string, std::string>>;
using Write = std::function<bool(const std::string& bytes)>;  // false: the client is gone or accepts nothing

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
  std::function<void(const Write&)> stream;  // used instead of `body`: writes the body while it is made
};

using Handler = std::function<HttpReply(const HttpRequest&)>;

inline constexpr const char* too_few_threads =
    "cannot start the server's threads: the system has a limit; raise it (ulimit -u)";

class HttpServer {
 public:
  // on_failure: called, on any thread, with the message of an error that no client caused.
  HttpServer(HttpOptions options, std::function<void(const std::string&)> on_failure);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // To be called before run(). Handlers run on many threads; their exceptions become replies (to_api_error). is_public:
  // needs no API key.
  void get(const std::string& path, Handler handler, bool is_public = false);
  void post(const std::string& path, Handler handler);

  // Starts the minimum number of threads; from here on, the system accepts connections. Returns the port. Throws Error.
  int listen();
  // Serves connections until stop(), and returns once all replies are sent.
  void run();
  void stop();              // any thread
  bool has_failed() const;  // the system accepts no more connections

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace specdec::server
