#include "server/http_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "httplib.h"
#include "server/access.h"
#include "server/api_error.h"
#include "server/json_body.h"

namespace specdec::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int min_threads = 8;                        // more are started as connections come
constexpr std::size_t max_waiting_connections = 512;  // beyond these, connections are closed at once
constexpr int keep_alive_seconds = 5;
constexpr int max_body_seconds = 300;  // for the whole body
constexpr double min_rate = 1024;      // bytes per second at which a reply must be accepted
constexpr std::size_t part_size = 16u << 10;

HttpReply error_reply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.status;
  reply.body = to_text(to_json(error));
  if (error.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

// Of replies that the library makes itself.
ApiError library_error(int status, const httplib::Request& request) {
  switch (status) {
    case 404:
      return {404, "not_found_error", "there is no endpoint " + request.method + " " + request.path};
    case 413:
      return {413, "invalid_request_error", "the body is larger than this server accepts"};
    case 414:
      return {414, "invalid_request_error", "the URL is too long"};
    default:
      return {status, status < 500 ? "invalid_request_error" : "server_error", "the server cannot process this HTTP request"};
  }
}

std::string key_of(const httplib::Request& request) {
  const std::string header = request.get_header_value("Authorization"), scheme = "Bearer ";
  if (header.compare(0, scheme.size(), scheme) == 0) return header.substr(scheme.size());
  return request.get_header_value("X-Api-Key");
}

// Without SO_REUSEPORT, with which two servers would share a port.
void set_options(socket_t socket) { httplib::set_socket_opt(socket, SOL_SOCKET, SO_REUSEADDR, 1); }

// Writes a reply, and ends it if the client keeps the server waiting longer than `patience` and a second per min_rate bytes in all. The
// library's own limit is for each write alone, so that a client that reads byte by byte would hold its connection for hours.
class PatientWriter {
 public:
  explicit PatientWriter(int patience) : patience_(patience) {}

  bool write(httplib::DataSink& sink, const char* data, std::size_t size) {
    const Clock::time_point start = Clock::now();
    if (!sink.write(data, size)) return false;
    waited_ += Clock::now() - start;
    num_bytes_ += size;
    return waited_.count() <= patience_ + static_cast<double>(num_bytes_) / min_rate;
  }

 private:
  const int patience_;  // seconds
  std::chrono::duration<double> waited_{0};
  std::size_t num_bytes_ = 0;
};

// Where the system starts no further thread, a connection waits for one that runs.
class Threads : public httplib::TaskQueue {
 public:
  explicit Threads(std::size_t most) : pool_(std::min<std::size_t>(min_threads, most), most, max_waiting_connections) {}
  ~Threads() override { pool_.shutdown(); }

  bool enqueue(std::function<void()> connection) override {
    try {
      return pool_.enqueue(std::move(connection));
    } catch (const std::system_error&) {
      return true;  // it was put into the queue before
    }
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  httplib::ThreadPool pool_;
};

// A body that a socket may not take at once goes out in parts.
void send_body(std::string body, const std::string& type, int patience, httplib::Response& response) {
  if (body.size() <= part_size) return response.set_content(std::move(body), type);
  const std::size_t size = body.size();
  const auto shared = std::make_shared<const std::string>(std::move(body));
  const auto writer = std::make_shared<PatientWriter>(patience);
  response.set_content_provider(size, type, [shared, writer](std::size_t at, std::size_t length, httplib::DataSink& sink) {
    return writer->write(sink, shared->data() + at, std::min(length, part_size));
  });
}

void send(HttpReply reply, int patience, httplib::Response& response, const std::function<void(const std::string&)>& on_failure) {
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  // The library asks its error handler to replace an error without content, and does not count what a content provider has.
  if (!reply.stream && reply.status >= 400) return response.set_content(std::move(reply.body), reply.content_type);
  if (!reply.stream) return send_body(std::move(reply.body), reply.content_type, patience, response);
  const auto provide = [stream = std::move(reply.stream), patience, on_failure](std::size_t, httplib::DataSink& sink) {
    PatientWriter writer(patience);
    try {
      stream([&](const std::string& bytes) { return writer.write(sink, bytes.data(), bytes.size()); });
      sink.done();
      return true;
    } catch (const ClientGone&) {
    } catch (const std::exception& error) {
      on_failure(error.what());
    }
    return false;  // closes the connection
  };
  response.set_chunked_content_provider(reply.content_type, provide);
}

}  // namespace

struct HttpServer::Implementation {
  HttpOptions options;
  std::function<void(const std::string&)> on_failure;
  std::set<std::string> public_paths;
  std::unique_ptr<Threads> threads;  // until the library has them
  httplib::Server server;
  std::atomic<bool> is_stopping{false}, has_failed{false};

  Implementation(HttpOptions given, std::function<void(const std::string&)> failure)
      : options(std::move(given)), on_failure(std::move(failure)) {
    server.new_task_queue = [this] { return threads.release(); };
    server.set_socket_options(set_options);
    server.set_keep_alive_timeout(keep_alive_seconds);
    server.set_read_timeout(options.patience);
    server.set_write_timeout(options.patience);
    server.set_payload_max_length(options.max_body);
    server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return is_settled(request, response) ? httplib::Server::HandlerResponse::Handled : httplib::Server::HandlerResponse::Unhandled;
    });
    server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return httplib::Server::HandlerResponse::Unhandled;
      HttpReply reply = error_reply(library_error(response.status, request));
      response.set_content(std::move(reply.body), reply.content_type);
      return httplib::Server::HandlerResponse::Handled;
    });
  }

  // Before the body is read: origins, preflights, keys.
  bool is_settled(const httplib::Request& request, httplib::Response& response) const {
    const std::string origin = request.get_header_value("Origin");
    if (!origin.empty() && is_allowed_origin(origin, options.cors_origins)) {
      response.set_header("Access-Control-Allow-Origin", origin);
      response.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
      response.set_header("Access-Control-Allow-Headers", "*, Authorization");
      response.set_header("Vary", "Origin");
    }
    if (request.method == "OPTIONS") {
      response.status = 200;
      return true;
    }
    if (options.api_keys.empty() || public_paths.count(request.path) > 0 || is_one_of(key_of(request), options.api_keys)) return false;
    send(error_reply({401, "authentication_error", "the API key is missing or wrong; send it as Authorization: Bearer KEY"}),
         options.patience, response, on_failure);
    return true;
  }

  void answer(const Handler& handler, const httplib::Request& request, std::string body, httplib::Response& response) const {
    HttpReply reply;
    try {
      reply = handler({request.method, request.path, std::move(body), request.is_connection_closed});
    } catch (...) {
      const ApiError error = to_api_error(std::current_exception());
      if (error.status >= 500 && error.status != 503) on_failure(request.path + ": " + error.what());
      reply = error_reply(error);
    }
    send(std::move(reply), options.patience, response, on_failure);
  }

  // False: a reply that says why is in `response`.
  bool read_body(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader,
                 std::string& body) const {
    const auto refuse = [&](int status, const std::string& message) {
      send(error_reply({status, "invalid_request_error", message}), options.patience, response, on_failure);
      return false;
    };
    if (request.is_multipart_form_data()) return refuse(415, "the body must be JSON, not a form");
    if (request.get_header_value_u64("Content-Length") > options.max_body) {
      return refuse(413, library_error(413, request).what());
    }
    const Clock::time_point end = Clock::now() + std::chrono::seconds(max_body_seconds);
    const bool is_whole = reader([&](const char* data, std::size_t size) {
      body.append(data, size);
      return Clock::now() < end;
    });
    if (is_whole) return true;
    if (response.status == 413) return false;  // the library replies
    return refuse(408, "the body did not arrive in time, or is not what its headers say");
  }
};

HttpServer::HttpServer(HttpOptions options, std::function<void(const std::string&)> on_failure)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(on_failure))) {}

HttpServer::~HttpServer() = default;

void HttpServer::get(const std::string& path, Handler handler, bool is_public) {
  if (is_public) implementation_->public_paths.insert(path);
  implementation_->server.Get(path, [this, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
    implementation_->answer(handler, request, "", response);
  });
}

void HttpServer::post(const std::string& path, Handler handler) {
  implementation_->server.Post(path, [this, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response,
                                                                          const httplib::ContentReader& reader) {
    std::string body;
    if (implementation_->read_body(request, response, reader, body)) implementation_->answer(handler, request, std::move(body), response);
  });
}

int HttpServer::listen() {
  const HttpOptions& options = implementation_->options;
  httplib::Server& server = implementation_->server;
  try {
    implementation_->threads = std::make_unique<Threads>(static_cast<std::size_t>(options.num_threads));
  } catch (const std::system_error&) {
    throw Error(too_few_threads);
  }
  int port = options.port;
  if (port == 0) port = server.bind_to_any_port(options.host);
  else if (!server.bind_to_port(options.host, port)) port = -1;
  if (port > 0) return port;
  throw Error("cannot listen on " + options.host + ", port " + std::to_string(options.port) +
              "; another program may use it (--port 0 chooses a free one), or the address is not this machine's");
}

void HttpServer::run() {
  try {
    implementation_->server.listen_after_bind();
  } catch (const std::exception& error) {  // no memory
    implementation_->on_failure(error.what());
  }
  implementation_->has_failed = !implementation_->is_stopping;
}

void HttpServer::stop() {
  implementation_->is_stopping = true;
  implementation_->server.stop();
}

bool HttpServer::has_failed() const { return implementation_->has_failed; }

}  // namespace specdec::server
