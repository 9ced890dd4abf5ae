// GET /health, /v1/models, /v1/models/ID, /props and /metrics; POST /models/load and /models/unload.
#include <algorithm>

#include "base/error.h"
#include "server/endpoints.h"
#include "server/replies.h"
#include "server/settings.h"

namespace specdec::server {
namespace {

const std::int64_t process_start = unix_time();

Json status_json(const ModelPool::Status& status) {
  static const char* const names[] = {"unloaded", "loading", "loaded", "unloading"};
  Json json = {{"value", names[static_cast<int>(status.state)]}};
  if (status.state == ModelPool::State::loading)
    json["progress"] = {{"step", status.progress.step}, {"value", status.progress.share}};
  if (!status.problem.empty() && status.state == ModelPool::State::unloaded) {
    json["failed"] = true;
    json["error"] = status.problem;
  }
  return json;
}

Json model_json(const ModelPool::Status& status) {
  Json json = {{"id", status.model.name},
               {"object", "model"},
               {"created", process_start},
               {"owned_by", "specdec"},
               {"status", status_json(status)}};
  if (!status.service) return json;
  const Generator& generator = status.service->generator();
  json["meta"] = {{"n_vocab", generator.vocabulary().size()},
                  {"n_ctx", generator.n_ctx()},
                  {"n_ctx_train", generator.models().target_model().trained_context()}};
  return json;
}

std::string name_in(const HttpRequest& http) {
  const Json& body = body_of(http);
  return Fields(body).required_text("model");
}

// Describes the server itself, if the request names no model.
Json router_props(const ModelPool& pool) {
  return {{"role", "router"},
          {"max_instances", pool.options().most},
          {"models_autoload", pool.options().loads_by_itself},
          {"default_generation_settings", {{"n_ctx", 0}, {"params", settings_json(pool.options().common.defaults)}}},
          {"model_alias", ""},
          {"model_path", ""},
          {"build_info", pool.options().common.build}};
}

Json model_props(const Service& service) {
  const Generator& generator = service.generator();
  const Vocabulary vocabulary = generator.vocabulary();
  const Request& defaults = service.options().defaults;
  Json settings = settings_json(defaults);
  if (!defaults.seed) settings["seed"] = -1;  // a random seed
  return {{"default_generation_settings", {{"n_ctx", generator.n_ctx()}, {"params", settings}}},
          {"total_slots", service.num_slots()},
          {"model_alias", service.options().model_name},
          {"model_path", service.options().model_path},
          {"modalities", {{"vision", generator.pictures().reads_pictures()}, {"audio", false}}},
          {"chat_template", generator.chat().template_text()},
          {"bos_token", vocabulary.name(vocabulary.bos())},
          {"eos_token", vocabulary.name(vocabulary.eos())},
          {"build_info", service.options().build},
          {"is_sleeping", false}};
}

// The reason names files, and anybody may ask for /health.
bool has_lost_device(const Generator& generator) {
  try {
    generator.models().target_model().check_devices();
    return false;
  } catch (const ModelError&) {
    return true;
  }
}

}  // namespace

HttpReply health(ModelPool& pool, const HttpRequest&) {
  if (pool.is_closed()) throw shutting_down();
  for (const ModelPool::Status& status : pool.statuses()) {
    if (status.service && has_lost_device(status.service->generator())) {
      throw ApiError(503, "unavailable_error",
                     status.model.name + " has lost a device or an RPC server: start this server again");
    }
  }
  return json_reply({{"status", "ok"}});
}

HttpReply models(ModelPool& pool, const HttpRequest&) {
  Json list = Json::array();
  for (const ModelPool::Status& status : pool.statuses()) list.push_back(model_json(status));
  return json_reply({{"object", "list"}, {"data", std::move(list)}});
}

HttpReply model(ModelPool& pool, const HttpRequest& http) {
  return json_reply(model_json(pool.status(http.path.substr(http.path.find("/models/") + 8))));
}

HttpReply load_model(ModelPool& pool, const HttpRequest& http) {
  pool.load(name_in(http));
  return json_reply({{"success", true}});
}

HttpReply unload_model(ModelPool& pool, const HttpRequest& http) {
  pool.unload(name_in(http));
  return json_reply({{"success", true}});
}

HttpReply props(ModelPool& pool, const HttpRequest& http) {
  const std::string name = http.query_value("model");
  if (pool.has_several() && name.empty()) return json_reply(router_props(pool));
  const auto of_model = [](Service& service, const HttpRequest&) { return json_reply(model_props(service)); };
  return answer_if_loaded(pool, of_model, http);
}

HttpReply metrics(ModelPool& pool, const HttpRequest&) {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4";
  reply.headers = {{"Process-Start-Time-Unix", std::to_string(process_start)}};  // as in llama-server
  const std::size_t processing = pool.num_processing(), unfinished = pool.num_unfinished();
  reply.body = pool.options().common.metrics->text(processing, unfinished - std::min(unfinished, processing));
  return reply;
}

}  // namespace specdec::server
