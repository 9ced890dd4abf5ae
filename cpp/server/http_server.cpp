#include "server/http_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "httplib.h"
#include "platform/sockets.h"
#include "server/api_error.h"
#include "server/border.h"
#include "server/json_body.h"
#include "server/waiting_room.h"
#include "server/workers.h"

namespace specdec::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t min_threads = 8;             // more are started when requests need them
constexpr std::size_t max_waiting_requests = 512;  // if there are more, connections are closed at once
constexpr std::size_t quick_threads = 2;  // for requests without a body: /health answers while all others are busy
constexpr int drain_ms = 100;
constexpr double min_rate = 1024;  // bytes per second at which a client must accept a reply
constexpr std::size_t part_size = 16u << 10;

// path: the request's; its API determines the form of errors.
HttpReply error_reply(const ApiError& error, const std::string& path) {
  HttpReply reply;
  reply.status = error.status;
  reply.body = to_text(to_json(error, error_form(path)));
  if (error.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status == 415) reply.headers.emplace_back("Accept-Encoding", "identity");
  return reply;
}

// The body of error replies that the HTTP library itself makes.
ApiError library_error(int status, const httplib::Request& request) {
  switch (status) {
    case 404:
      return {404, "not_found_error", "there is no endpoint " + request.method + " " + request.path};
    case 413:
      return {413, "invalid_request_error", "the body is larger than this server accepts"};
    case 414:
      return {414, "invalid_request_error", "the URL is too long"};
    default:
      return {status, status < 500 ? "invalid_request_error" : "server_error",
              "the server cannot process this HTTP request"};
  }
}

// Does not set SO_REUSEPORT, which would let two servers share a port.
void set_options(socket_t socket) { httplib::set_socket_opt(socket, SOL_SOCKET, SO_REUSEADDR, 1); }

// Writes a reply, and ends it if the client keeps the server waiting for more than `patience` plus one second per
// min_rate bytes in total. The library's own limit applies to each write, so a client that reads byte by byte could
// hold its connection for hours.
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

// A connection whose request has arrived.
class ArrivedStream final : public httplib::Stream {
 public:
  ArrivedStream(socket_t socket, std::string arrived, int patience)
      : socket_(socket), arrived_(std::move(arrived)), patience_ms_(1000 * patience) {}

  std::string rest() const { return arrived_.substr(at_); }  // the unread rest of what had arrived

  bool is_readable() const override { return at_ < arrived_.size(); }
  bool wait_readable() const override { return is_readable() || can_read_socket(handle(), patience_ms_); }
  bool wait_writable() const override { return can_write_socket(handle(), patience_ms_); }
  bool is_peer_alive() const override { return is_connected(socket_); }
  ssize_t read(char* to, size_t size) override {
    if (is_readable()) {
      const std::size_t count = arrived_.copy(to, size, at_);
      at_ += count;
      return static_cast<ssize_t>(count);
    }
    return wait_readable() ? static_cast<ssize_t>(receive_bytes(handle(), to, size, CPPHTTPLIB_RECV_FLAGS)) : -1;
  }
  ssize_t write(const char* from, size_t size) override {
    return wait_writable() ? static_cast<ssize_t>(send_bytes(handle(), from, size, CPPHTTPLIB_SEND_FLAGS)) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }
  time_t duration() const override { return 0; }
  const char* buffered_data(size_t& size) const override {
    size = arrived_.size() - at_;
    return size > 0 ? arrived_.data() + at_ : nullptr;
  }
  void consume_buffered(size_t size) override { at_ += size; }

  static bool is_connected(socket_t socket) {
    char byte;
    return !can_read_socket(static_cast<std::intptr_t>(socket), 0) ||
           receive_bytes(static_cast<std::intptr_t>(socket), &byte, 1, MSG_PEEK) > 0;
  }

 private:
  std::intptr_t handle() const { return static_cast<std::intptr_t>(socket_); }

  const socket_t socket_;
  const std::string arrived_;
  const int patience_ms_;
  std::size_t at_ = 0;
};

// The library's server, with connections that wait in a WaitingRoom. Its public functions give each connection a thread
// from its first byte to its last, and none serves bytes that have arrived. Hence two functions that are not public:
// the virtual process_and_close_socket(), whose `override` fails to compile if it moves, and process_request(), whose
// behaviour tests/server/test_connections.py and test_border.py pin.
class RoomServer final : public httplib::Server {
 public:
  std::function<void(socket_t)> accepted;

  // Returns false if the connection must be closed.
  bool serve(ArrivedStream& stream) {
    bool is_closed = false, is_websocket = false;
    const bool is_served = serve_guarded(
        [&] { return process_request(stream, "", 0, "", 0, !is_running(), is_closed, nullptr, &is_websocket); });
    return is_served && !is_closed && is_running();
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    accepted(socket);
    return true;
  }
};

// Hands connections over on the thread that accepts them.
class Handover final : public httplib::TaskQueue {
 public:
  explicit Handover(std::function<void()> end) : end_(std::move(end)) {}
  bool enqueue(std::function<void()> connection) override {
    connection();
    return true;
  }
  void shutdown() override { end_(); }

 private:
  const std::function<void()> end_;
};

// Closes a connection after reading, for a moment, what the client still sends: unread bytes would reset the
// connection, and the reply would be lost. It does not linger when the client has nothing left to send; otherwise two
// clients that keep their side open would delay /health.
void close_after(socket_t socket, int patience_ms) {
  shutdown_sending(static_cast<std::intptr_t>(socket));
  char bytes[4096];
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(patience_ms);
  while (Clock::now() < end && can_read_socket(static_cast<std::intptr_t>(socket), patience_ms) &&
         receive_bytes(static_cast<std::intptr_t>(socket), bytes, sizeof bytes) > 0) {
  }
  close_socket(static_cast<std::intptr_t>(socket));
}

// Sends the body in parts if the socket may not take it at once.
void send_body(std::string body, const std::string& type, int patience, httplib::Response& response) {
  if (body.size() <= part_size) return response.set_content(std::move(body), type);
  const std::size_t size = body.size();
  const auto shared = std::make_shared<const std::string>(std::move(body));
  const auto writer = std::make_shared<PatientWriter>(patience);
  response.set_content_provider(size, type,
                                [shared, writer](std::size_t at, std::size_t length, httplib::DataSink& sink) {
                                  return writer->write(sink, shared->data() + at, std::min(length, part_size));
                                });
}

// has_chunks: false for a client of HTTP/1.0, whose streams end with the connection.
void send(HttpReply reply, int patience, bool has_chunks, httplib::Response& response,
          const std::function<void(const std::string&)>& on_failure) {
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  // The library lets its error handler replace errors without content, and content from a provider does not count as
  // such.
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
  if (has_chunks) return response.set_chunked_content_provider(reply.content_type, provide);
  response.set_content_provider(reply.content_type, provide);
}

}  // namespace

struct HttpServer::Implementation {
  HttpOptions options;
  std::function<void(const std::string&)> on_failure;
  std::set<std::string> public_paths;
  std::unique_ptr<const Border> border;
  static inline thread_local Client client;                            // of the request that this thread serves
  static inline thread_local const ArrivedRequest* arrived = nullptr;  // likewise
  std::unique_ptr<Workers> workers, quick_workers;
  std::unique_ptr<WaitingRoom> room;
  RoomServer server;
  std::atomic<bool> is_stopping{false}, has_failed{false};

  Implementation(HttpOptions given, std::function<void(const std::string&)> failure)
      : options(std::move(given)), on_failure(std::move(failure)) {
    server.accepted = [this](socket_t socket) {
      if (!guarded([&] { room->add(static_cast<std::intptr_t>(socket)); })) close_after(socket, 0);
    };
    server.new_task_queue = [this] { return new Handover([this] { end_connections(); }); };
    server.set_socket_options(set_options);
    server.set_read_timeout(options.patience);
    server.set_write_timeout(options.patience);
    server.set_payload_max_length(options.max_body);
    server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return is_settled(request, response) ? httplib::Server::HandlerResponse::Handled
                                           : httplib::Server::HandlerResponse::Unhandled;
    });
    server.set_logger([](const httplib::Request& request, const httplib::Response& response) {
      client.record->method = request.method;
      client.record->path = request.path;
      client.record->status = response.status;
    });
    server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return httplib::Server::HandlerResponse::Unhandled;
      HttpReply reply = error_reply(library_error(response.status, request), request.path);
      response.set_content(std::move(reply.body), reply.content_type);
      return httplib::Server::HandlerResponse::Handled;
    });
  }

  void start() {
    workers = std::make_unique<Workers>(min_threads, idx(options.num_threads), max_waiting_requests);
    quick_workers = std::make_unique<Workers>(quick_threads, quick_threads, max_waiting_requests);
    WaitingRoom::Limits limits;
    limits.max_body = options.max_body;
    limits.patience = std::chrono::seconds(options.patience);
    limits.max_bytes = std::max<std::size_t>(4 * options.max_body, 256u << 20);
    const std::size_t files = open_file_limit();
    limits.max_connections = files / 2 + files / 4;  // the rest is for models, connections being served, and other
                                                     // files
    BorderRules rules;
    rules.listens_on = options.host;
    rules.allowed_hosts = options.allowed_hosts;
    rules.cors_origins = options.cors_origins;
    rules.api_keys = options.api_keys;
    rules.public_paths = public_paths;
    rules.max_body = options.max_body;
    border = std::make_unique<const Border>(std::move(rules));
    WaitingRoom::Room events;
    events.serve = [this](std::intptr_t socket, ArrivedRequest request) {
      hand_over(static_cast<socket_t>(socket), std::move(request));
    };
    events.refusal = [this](const RequestHead& head) { return border->refusal(head); };
    events.failed = on_failure;
    events.close = [](std::intptr_t socket, const char* reply) {
      const std::size_t size = std::char_traits<char>::length(reply);
      if (size > 0) (void)send_bytes(socket, reply, size, CPPHTTPLIB_SEND_FLAGS);
      close_after(static_cast<socket_t>(socket), 0);
    };
    room = std::make_unique<WaitingRoom>(limits, std::move(events));
  }

  // The boundary of every thread: an exception that arrives here ends what was done for one connection, and no more.
  // Returns false if there was one.
  bool guarded(const std::function<void()>& action) const noexcept {
    try {
      action();
      return true;
    } catch (const std::exception& error) {
      on_failure(error.what());
    } catch (...) {
      on_failure("an unknown C++ exception");
    }
    return false;
  }

  void hand_over(socket_t socket, ArrivedRequest request) {
    Workers& free = request.has_body ? *workers : *quick_workers;
    const auto shared = std::make_shared<ArrivedRequest>(std::move(request));
    const auto serve = [this, socket, shared] {
      bool is_kept = false;
      int wait_ms = 0;
      const bool is_done = guarded([&] {
        ArrivedStream stream(socket, std::move(shared->bytes), options.patience);
        const bool goes_on = serve_one(*shared, stream);
        wait_ms = shared->is_whole && stream.rest().empty() ? 0 : drain_ms;
        is_kept = goes_on && shared->is_whole && !is_stopping;
        if (is_kept) room->add_again(static_cast<std::intptr_t>(socket), stream.rest());
      });
      if (!is_done || !is_kept) close_after(socket, wait_ms);
    };
    if (!free.enqueue(serve)) close_after(socket, 0);
  }

  // Serves one request and logs it. Returns false if the connection must be closed.
  bool serve_one(const ArrivedRequest& request, ArrivedStream& stream) {
    const auto begin = Clock::now();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    // The library's own check would wait for bytes if poll() failed.
    client.is_gone = [socket = stream.socket()] { return !ArrivedStream::is_connected(socket); };
    client.record = std::make_shared<RequestRecord>();
    RequestRecord& record = *client.record;
    record.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    arrived = &request;
    const bool goes_on = server.serve(stream) && !is_last(request);
    arrived = nullptr;
    record.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (options.log && is_worth_logging(record)) options.log(record);
    return goes_on;
  }

  // Returns after all replies are sent.
  void end_connections() {
    if (!is_stopping) room->wait_for_new(std::chrono::milliseconds(drain_ms));  // no more connections are accepted
    workers->shutdown();
    quick_workers->shutdown();
    room.reset();
  }

  // Sends what the border decided before the body arrived.
  bool is_settled(const httplib::Request& request, httplib::Response& response) const {
    if (arrived->head && border->may_read_reply(*arrived->head)) {
      response.set_header("Access-Control-Allow-Origin", arrived->head->value("origin"));
      response.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
      response.set_header("Access-Control-Allow-Headers", "*, Authorization");
      response.set_header("Vary", "Origin");
    }
    if (arrived->refusal) {
      send(error_reply(*arrived->refusal, request.path), response);
    } else if (!arrived->head) {  // the library takes what this server's reader does not
      send(error_reply({400, "invalid_request_error", "this is not a request of HTTP/1.1"}, request.path), response);
    } else if (request.method == "OPTIONS") {
      response.status = 200;
    } else {
      return false;
    }
    return true;
  }

  void send(HttpReply reply, httplib::Response& response) const {
    if (!has_chunks(*arrived)) response.set_header("Connection", "close");
    server::send(std::move(reply), options.patience, has_chunks(*arrived), response, on_failure);
  }
  static bool has_chunks(const ArrivedRequest& request) { return !request.head || request.head->version != "HTTP/1.0"; }
  // A client of HTTP/1.0 learns the end of a reply by the end of its connection.
  static bool is_last(const ArrivedRequest& request) { return !has_chunks(request); }

  void answer(const Handler& handler, const httplib::Request& request, std::string body,
              httplib::Response& response) const {
    HttpReply reply;
    try {
      HttpRequest given{request.method, request.path, std::move(body), client, {}, nullptr};
      for (const auto& [name, value] : request.params) given.query.emplace(name, value);
      reply = handler(given);
      const std::size_t num_dropped = client.record->num_dropped_messages;
      if (num_dropped > 0) reply.headers.emplace_back("X-Dropped-Messages", std::to_string(num_dropped));
    } catch (...) {
      const ApiError error = to_api_error(std::current_exception());
      if (error.status >= 500 && error.status != 503) on_failure(request.path + ": " + error.what());
      reply = error_reply(error, request.path);
    }
    send(std::move(reply), response);
  }

  // Returns false after writing the reason to `response`.
  bool read_body(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader,
                 std::string& body) const {
    const bool is_whole = reader([&](const char* data, std::size_t size) {
      body.append(data, size);
      return true;
    });
    if (is_whole) return true;
    if (response.status == 413) return false;  // the library replies
    send(error_reply({408, "invalid_request_error", "the body did not arrive in time, or is not what its headers say"},
                     request.path),
         response);
    return false;
  }
};

HttpServer::HttpServer(HttpOptions options, std::function<void(const std::string&)> on_failure)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(on_failure))) {}

HttpServer::~HttpServer() = default;

void HttpServer::get(const std::string& path, Handler handler, bool is_public) {
  if (is_public) implementation_->public_paths.insert(path);
  implementation_->server.Get(
      path, [this, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
        implementation_->answer(handler, request, "", response);
      });
}

void HttpServer::post(const std::string& path, Handler handler) {
  implementation_->server.Post(
      path, [this, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response,
                                                 const httplib::ContentReader& reader) {
        std::string body;
        if (implementation_->read_body(request, response, reader, body))
          implementation_->answer(handler, request, std::move(body), response);
      });
}

int HttpServer::listen() {
  const HttpOptions& options = implementation_->options;
  httplib::Server& server = implementation_->server;
  try {
    implementation_->start();
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
  } catch (...) {
    implementation_->on_failure("an unknown C++ exception");
  }
  implementation_->has_failed = !implementation_->is_stopping;
}

void HttpServer::stop() {
  implementation_->is_stopping = true;
  implementation_->server.stop();
}

bool HttpServer::has_failed() const { return implementation_->has_failed; }

}  // namespace specdec::server
