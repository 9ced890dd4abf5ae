#include "server/model_requests.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "server/api_error.h"
#include "server/deadline.h"
#include "server/event_stream.h"
#include "server/json_body.h"
#include "server/replies.h"
#include "server/request_fields.h"

namespace specdec::server {
namespace {

struct Wanted {
  std::string model;
  bool has_events = false;  // the reply is a stream of events
  ModelPool::Keep keep;
  bool is_farewell = false;  // Ollama's request without a text that has the model unloaded
};

// Ollama's keep_alive: seconds, or a duration such as "1h30m"; negative: for ever.
ModelPool::Keep read_keep_alive(const Fields& body, const ModelPool::Keep& fallback) {
  const Json* given = body.find("keep_alive");
  if (given == nullptr) return fallback;
  constexpr double most = 1e9;
  double seconds = 0.0;
  bool is_right = given->is_number();
  if (is_right) {
    seconds = given->get<double>();
  } else if (given->is_string()) {
    const std::string text = given->get<std::string>();
    const bool is_negative = !text.empty() && text[0] == '-';
    is_right = text.size() > (is_negative ? 1 : 0);
    for (std::size_t at = is_negative ? 1 : 0; at < text.size() && is_right;) {
      const std::size_t end = std::min(text.find_first_not_of("0123456789.", at), text.size());
      const std::size_t next = std::min(text.find_first_of("0123456789.", end), text.size());
      const std::string unit = text.substr(end, next - end);
      static const std::map<std::string, double> units = {{"ns", 1e-9}, {"us", 1e-6},  {"ms", 1e-3}, {"s", 1.0},
                                                          {"m", 60.0},  {"h", 3600.0}, {"", 1.0}};
      const auto found = units.find(unit);
      is_right = end > at && end - at < 16 && found != units.end();
      if (is_right) seconds += std::strtod(text.substr(at, end - at).c_str(), nullptr) * found->second;
      at = next;
    }
    if (is_negative) seconds = -seconds;
  }
  if (!is_right) throw wrong_value("keep_alive", *given, "a number of seconds or a duration such as \"5m\"");
  if (seconds < 0 || seconds > most) return std::nullopt;
  return std::chrono::seconds(static_cast<std::int64_t>(std::ceil(seconds)));
}

bool has_text(const Fields& body) {
  for (const char* field : {"prompt", "suffix", "messages", "input", "name"}) {
    const Json* value = body.find(field);
    if (value != nullptr && !value->empty() && *value != Json("")) return true;
  }
  return false;
}

Wanted read(const HttpRequest& http, const ModelPool::Keep& usual) {
  Wanted wanted;
  wanted.keep = usual;
  wanted.model = http.query_value("model");
  if (http.body.empty()) return wanted;
  const Json& body = body_of(http);
  const Fields fields(body);
  if (wanted.model.empty()) wanted.model = fields.text("model", "");
  const bool has_lines = error_form(http.path) == ErrorForm::ollama;  // of JSON
  wanted.has_events = !has_lines && fields.flag("stream", false);
  if (has_lines) {
    wanted.keep = read_keep_alive(fields, usual);
    const bool is_answer = http.path == "/api/generate" || http.path == "/api/chat";
    wanted.is_farewell = is_answer && wanted.keep == ModelPool::Keep(0) && !has_text(fields);
  }
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

// Unloads the model if it is loaded. The reply is Ollama's.
HttpReply unloaded(ModelPool& pool, const std::string& name, bool is_chat) {
  const ModelPool::Status status = pool.status(name);
  if (status.state == ModelPool::State::loaded) pool.unload(name);
  Json json = {{"model", status.model.name}, {"created_at", rfc3339(unix_time())}};
  if (is_chat) json["message"] = {{"role", "assistant"}, {"content", ""}};
  else json["response"] = "";
  json["done"] = true;
  json["done_reason"] = "unload";
  return json_reply(json);
}

std::string comment(const LoadProgress& progress) {
  return " loading the model, " + std::to_string(static_cast<int>(100 * progress.share)) + " % of a step";
}

}  // namespace

HttpReply answer(ModelPool& pool, Endpoint endpoint, const HttpRequest& http) {
  if (!pool.has_several()) return endpoint(*pool.use("", {}), http);
  const Wanted wanted = read(http, pool.options().idle_unload);
  http.is_gone.record->model = wanted.model;
  if (wanted.is_farewell) return unloaded(pool, wanted.model, http.path == "/api/chat");
  const ServiceOptions& options = pool.options().common;
  const std::chrono::seconds interval = options.ping_interval;
  const Deadline deadline(http.is_gone, options.request_seconds, "the model was not loaded within");
  try {
    std::shared_ptr<Service> service = pool.use(
        wanted.model,
        [&](const LoadProgress&) {
          deadline.check();
          if (wanted.has_events && interval.count() > 0 && deadline.waited() >= interval) throw StillLoading();
        },
        wanted.keep);
    HttpReply reply = endpoint(*service, http);
    return holding(std::move(service), std::move(reply));
  } catch (const StillLoading&) {
  }
  const auto request = std::make_shared<const HttpRequest>(http);
  const auto body = [&pool, endpoint, request, deadline, interval, name = wanted.model,
                     keep = wanted.keep](EventStream& events) {
    const std::shared_ptr<Service> service = pool.use(
        name,
        [&](const LoadProgress& progress) {
          deadline.check();
          events.keep_alive(interval, comment(progress));
        },
        keep);
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
