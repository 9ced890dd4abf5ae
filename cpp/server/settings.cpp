#include "server/settings.h"

#include <cmath>
#include <limits>

#include "engine/request_options.h"

namespace specdec::server {
namespace {

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const sampling::LogitBias& biases) const {
    Json list = Json::array();
    for (const auto& [token, bias] : biases) {
      list.push_back(
          {{"token", token}, {"bias", std::isfinite(bias) ? Json(bias) : Json(nullptr)}});  // JSON has no infinity
    }
    return list;
  }
  template <class Value>
  Json operator()(const Value& value) const {
    return value;
  }
};

}  // namespace

Json settings_json(const Request& request) {
  Json json = Json::object();
  for (const RequestOption& option : request_options()) json[option.name] = std::visit(ToJson(), option.get(request));
  const Json max_tokens = request.max_tokens == std::numeric_limits<int>::max() ? -1 : request.max_tokens;
  json["max_tokens"] = json["n_predict"] = max_tokens;
  json["repeat_last_n"] = request.sampling.penalty_last_n;
  return json;
}

}  // namespace specdec::server
