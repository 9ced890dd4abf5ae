#include "server/model_requests.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "server/event_stream.h"
#include "server/json_body.h"

namespace specdec::server {
namespace {

using Clock = std::chrono::steady_clock;

struct Wanted {
  std::string model;
  bool has_events = false;  // the reply is a stream of events
};

Wanted read(const HttpRequest& http) {
  Wanted wanted;
  wanted.model = http.query_value("model");
  if (http.body.empty()) return wanted;
  const Json body = parse_body(http.body);
  const Fields fields(body);
  if (wanted.model.empty()) wanted.model = fields.text("model", "");
  const bool has_lines = http.path.compare(0, 5, "/api/") == 0;  // of JSON, as Ollama's clients read them
  wanted.has_events = !has_lines && fields.flag("stream", false);
  return wanted;
}

// The model stays loaded until the reply's stream has ended.
HttpReply holding(std::shared_ptr<Service> service, HttpReply reply) {
  if (!reply.stream) return reply;
  struct Held {
    std::shared_ptr<Service> service;
    std::function<void(const Write&)> stream;  // goes first
  };
  const auto held = std::make_shared<Held>(Held{std::move(service), std::move(reply.stream)});
  reply.stream = [held](const Write& write) { held->stream(write); };
  return reply;
}

struct StillLoading {};

class Waiter {
 public:
  Waiter(const ModelPool& pool, Client client) : options_(pool.options().common), client_(std::move(client)) {}

  void check() const {
    if (client_()) throw ClientGone();
    const int limit = options_.request_seconds;
    if (limit > 0 && Clock::now() - start_ > std::chrono::seconds(limit)) {
      throw ApiError(504, "timeout_error", "the model was not loaded within " + std::to_string(limit) + " seconds");
    }
  }
  // Whether a stream must begin although the model is not there.
  bool is_long() const { return options_.ping_interval.count() > 0 && Clock::now() - start_ >= options_.ping_interval; }
  std::chrono::seconds ping_interval() const { return options_.ping_interval; }

 private:
  const ServiceOptions& options_;
  const Client client_;
  const Clock::time_point start_ = Clock::now();
};

std::string comment(const LoadProgress& progress) {
  return " loading the model, " + std::to_string(static_cast<int>(100 * progress.share)) + " % of a step";
}

}  // namespace

HttpReply answer(ModelPool& pool, Endpoint endpoint, const HttpRequest& http) {
  if (!pool.has_several()) return endpoint(*pool.use("", {}), http);
  const Wanted wanted = read(http);
  http.is_gone.record->model = wanted.model;
  const Waiter waiter(pool, http.is_gone);
  try {
    std::shared_ptr<Service> service = pool.use(wanted.model, [&](const LoadProgress&) {
      waiter.check();
      if (wanted.has_events && waiter.is_long()) throw StillLoading();
    });
    HttpReply reply = endpoint(*service, http);
    return holding(std::move(service), std::move(reply));
  } catch (const StillLoading&) {
  }
  const auto request = std::make_shared<const HttpRequest>(http);
  const auto body = [&pool, endpoint, request, waiter, name = wanted.model](EventStream& events) {
    const std::shared_ptr<Service> service = pool.use(name, [&](const LoadProgress& progress) {
      waiter.check();
      events.keep_alive(waiter.ping_interval(), comment(progress));
    });
    endpoint(*service, *request).stream(events.write());
  };
  return event_reply(body, error_form(http.path));
}

HttpReply answer_if_loaded(ModelPool& pool, Endpoint endpoint, const HttpRequest& http) {
  const std::string name = http.query_value("model");
  const std::shared_ptr<Service> service = pool.loaded(name);
  if (service) return endpoint(*service, http);
  throw ApiError(503, "unavailable_error",
                 "the model " + name + " is not loaded; a request to it loads it, or POST /models/load", "model");
}

}  // namespace specdec::server
