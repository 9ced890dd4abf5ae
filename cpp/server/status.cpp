// GET /health, /v1/models, /v1/models/ID, /props, /slots and /metrics.
#include "server/endpoints.h"
#include "server/replies.h"
#include "server/settings.h"

namespace specdec::server {
namespace {

const std::int64_t process_start = unix_time();

Json model_json(Service& service) {
  const Generator& generator = service.generator();
  return {{"id", service.options().model_name},
          {"object", "model"},
          {"created", process_start},
          {"owned_by", "specdec"},
          {"meta", {{"n_vocab", generator.vocabulary().size()}, {"n_ctx", generator.n_ctx()}}}};
}

}  // namespace

HttpReply health(Service& service) {
  if (service.is_closed()) throw ApiError(503, "unavailable_error", "the server is shutting down");
  return json_reply({{"status", "ok"}});
}

HttpReply models(Service& service) {
  return json_reply({{"object", "list"}, {"data", Json::array({model_json(service)})}});
}

HttpReply model(Service& service, const HttpRequest& http) {
  const std::string id = http.path.substr(http.path.find("/models/") + std::string("/models/").size()),
                    &name = service.options().model_name;
  if (id != name)
    throw ApiError(404, "not_found_error", "there is no model \"" + id + "\"; this server has \"" + name + "\"",
                   "model");
  return json_reply(model_json(service));
}

HttpReply props(Service& service) {
  const Generator& generator = service.generator();
  const Request& defaults = service.options().defaults;
  Json settings = settings_json(defaults);
  if (!defaults.seed) settings["seed"] = -1;  // a random one
  return json_reply({{"default_generation_settings", {{"n_ctx", generator.n_ctx()}, {"params", settings}}},
                     {"total_slots", service.num_slots()},
                     {"model_alias", service.options().model_name},
                     {"model_path", service.options().model_path},
                     {"modalities", {{"vision", false}, {"audio", false}}},
                     {"build_info", service.options().build},
                     {"is_sleeping", false}});
}

// The engine assigns slots by itself: the numbers are right, which one is which is not.
HttpReply slots(Service& service) {
  Json list = Json::array();
  const std::size_t num_processing = service.num_processing();
  for (std::size_t i = 0; i < service.num_slots(); ++i) {
    list.push_back({{"id", i}, {"n_ctx", service.generator().n_ctx()}, {"is_processing", i < num_processing}});
  }
  return json_reply(list);
}

HttpReply metrics(Service& service) {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4";
  reply.headers = {{"Process-Start-Time-Unix", std::to_string(process_start)}};  // as llama-server
  const std::size_t processing = service.num_processing(), unfinished = service.num_unfinished();
  reply.body = service.metrics().text(processing, unfinished > processing ? unfinished - processing : 0);
  return reply;
}

}  // namespace specdec::server
