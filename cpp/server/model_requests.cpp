#include "server/model_requests.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "server/api_error.h"
#include "server/deadline.h"
#include "server/event_stream.h"
#include "server/json_body.h"
#include "server/request_fields.h"

namespace specdec::server {
namespace {

struct Wanted {
  std::string model;
  bool has_events = false;  // the reply is a stream of events
};

Wanted read(const HttpRequest& http) {
  Wanted wanted;
  wanted.model = http.query_value("model");
  if (http.body.empty()) return wanted;
  const Json& body = body_of(http);
  const Fields fields(body);
  if (wanted.model.empty()) wanted.model = fields.text("model", "");
  const bool has_lines = error_form(http.path) == ErrorForm::ollama;  // of JSON
  wanted.has_events = !has_lines && fields.flag("stream", false);
  return wanted;
}

// The model stays loaded until the reply's stream has ended.
HttpReply holding(std::shared_ptr<Service> service, HttpReply reply) {
  if (!reply.stream) return reply;
  struct Held {
    std::shared_ptr<Service> service;
    std::function<void(const Write&)> stream;  // runs before the endpoint's stream
  };
  const auto held = std::make_shared<Held>(Held{std::move(service), std::move(reply.stream)});
  reply.stream = [held](const Write& write) { held->stream(write); };
  return reply;
}

struct StillLoading {};

std::string comment(const LoadProgress& progress) {
  return " loading the model, " + std::to_string(static_cast<int>(100 * progress.share)) + " % of a step";
}

}  // namespace

HttpReply answer(ModelPool& pool, Endpoint endpoint, const HttpRequest& http) {
  if (!pool.has_several()) return endpoint(*pool.use("", {}), http);
  const Wanted wanted = read(http);
  http.is_gone.record->model = wanted.model;
  const ServiceOptions& options = pool.options().common;
  const std::chrono::seconds interval = options.ping_interval;
  const Deadline deadline(http.is_gone, options.request_seconds, "the model was not loaded within");
  try {
    std::shared_ptr<Service> service = pool.use(wanted.model, [&](const LoadProgress&) {
      deadline.check();
      if (wanted.has_events && interval.count() > 0 && deadline.waited() >= interval) throw StillLoading();
    });
    HttpReply reply = endpoint(*service, http);
    return holding(std::move(service), std::move(reply));
  } catch (const StillLoading&) {
  }
  const auto request = std::make_shared<const HttpRequest>(http);
  const auto body = [&pool, endpoint, request, deadline, interval, name = wanted.model](EventStream& events) {
    const std::shared_ptr<Service> service = pool.use(name, [&](const LoadProgress& progress) {
      deadline.check();
      events.keep_alive(interval, comment(progress));
    });
    const HttpReply reply = endpoint(*service, *request);
    if (!reply.stream) throw invalid_request("stream", "this endpoint does not stream; leave stream out");
    for (const auto& [header, value] : reply.headers) {  // it is too late for headers
      if (header == ignored_keywords_header) events.comment(" " + header + ": " + value);
    }
    reply.stream(events.write());
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
