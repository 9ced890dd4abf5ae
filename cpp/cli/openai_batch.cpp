#include "cli/openai_batch.h"

#include <memory>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/suggestion.h"
#include "server/api_error.h"
#include "server/endpoints.h"
#include "server/request_log.h"

namespace specdec::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Url {
  const char* path;
  server::Endpoint endpoint;
};
constexpr Url urls[] = {{"/v1/chat/completions", server::chat_completions},
                        {"/v1/completions", server::completions},
                        {"/v1/responses", server::responses},
                        {"/v1/embeddings", server::embeddings}};

server::Endpoint endpoint_of(const std::string& url) {
  std::vector<std::string> known;
  std::string names;
  for (const Url& one : urls) {
    if (url == one.path) return one.endpoint;
    known.emplace_back(one.path);
    names += (names.empty() ? "" : ", ") + known.back();
  }
  throw std::invalid_argument("url is \"" + url + "\"" + suggestion(url, known) + "; it must be one of " + names);
}

}  // namespace

bool is_batch_call(const Json& line) { return line.contains("url") || line.contains("body"); }

BatchCall batch_call(const Json& line) {
  for (const auto& [name, value] : line.items()) {
    if (name != "custom_id" && name != "method" && name != "url" && name != "body")
      throw std::invalid_argument("unknown field \"" + name +
                                  "\"; OpenAI's batch format has custom_id, method, url, body");
  }
  if (!line.contains("url") || !line["url"].is_string()) throw std::invalid_argument("url must be a string");
  if (!line.contains("body") || !line["body"].is_object()) throw std::invalid_argument("body must be an object");
  if (line.value("method", Json("POST")) != "POST") throw std::invalid_argument("method must be \"POST\"");
  BatchCall call{line.value("custom_id", Json()), line["body"], endpoint_of(line["url"].get<std::string>())};
  call.is_generation = call.endpoint != server::embeddings;
  call.body.erase("stream");  // a result is one object
  call.body.erase("stream_options");
  return call;
}

BatchReply run_batch_call(server::Service& service, const BatchCall& call, std::int64_t index,
                          const std::function<bool()>& is_cancelled) {
  const std::string id = "batch_req_" + std::to_string(index);
  Json response = {{"status_code", 200}, {"request_id", id}, {"body", nullptr}}, error = nullptr;
  server::HttpRequest http;
  try {
    http.method = "POST";
    http.is_gone = {is_cancelled};
    http.json = std::make_shared<const Json>(call.body);
    response["body"] = Json::parse(call.endpoint(service, http).body);
  } catch (const server::ClientGone&) {
    throw;
  } catch (const Cancelled&) {
    throw server::ClientGone();
  } catch (...) {
    const server::ApiError failure = server::to_api_error(std::current_exception());
    response["status_code"] = failure.status;
    response["body"] = server::to_json(failure);
    error = {{"code", failure.type}, {"message", failure.what()}};
  }
  Json result = {{"id", id}, {"custom_id", call.custom_id}, {"response", response}, {"error", error}};
  return {std::move(result), http.is_gone.record->unknown_fields};
}

}  // namespace specdec::cli
