// /api/tags, /api/ps, /api/show and /api/version of Ollama.
#include "base/format.h"
#include "engine/infill.h"
#include "engine/model_card.h"
#include "server/endpoints.h"
#include "server/replies.h"

namespace specdec::server {
namespace {

// "7.3M", "1.5B"
std::string parameter_size(std::uint64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count >= 1e9 ? format("%.1fB", count / 1e9) : format("%.1fM", count / 1e6);
}

Json details_json(const ModelCard& card) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", card.architecture},
          {"families", Json::array({card.architecture})},
          {"parameter_size", parameter_size(card.parameters)},
          {"quantization_level", card.weight_type}};
}

// An entry in a list of models.
Json entry_json(const KnownModel& model, const ModelCard& card) {
  return {{"name", model.name},
          {"model", model.name},
          {"size", card.file_bytes},
          {"digest", card.fingerprint},
          {"details", details_json(card)}};
}

// Caches the cards of all models that were asked for.
std::shared_ptr<const ModelCard> card_of(const std::string& path) {
  static ModelCards cards;
  return cards.card(path);
}

bool has_tool_calls(const Chat& chat) {
  const Conversation plain = conversation({{"user", "Hello"}});
  Conversation call = plain;
  call.tools = R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";
  Request request;
  try {
    const bool is_told = chat.prompt(call).text != chat.prompt(plain).text;
    return is_told && chat.prepare_answer(call, {false, true}, request) != nullptr;
  } catch (const std::exception&) {  // the template has no calls or fails
    return false;
  }
}

bool has_reasoning(const Chat& chat) {
  Request request;
  return chat.prepare_answer(conversation({{"user", "Hello"}}), {}, request) != nullptr;
}

Json capabilities_json(const Generator& generator) {
  if (!generator.makes_text()) return Json::array({"embedding"});
  Json list = Json::array({"completion"});
  if (has_tool_calls(generator.chat())) list.push_back("tools");
  if (has_reasoning(generator.chat())) list.push_back("thinking");
  if (has_infill(generator.vocabulary())) list.push_back("insert");
  list.push_back("embedding");
  return list;
}

}  // namespace

HttpReply ollama_tags(ModelPool& pool, const HttpRequest&) {
  Json list = Json::array();
  for (const ModelPool::Status& status : pool.statuses()) {
    try {
      const std::shared_ptr<const ModelCard> card = card_of(status.model.path);
      list.push_back(entry_json(status.model, *card));
      list.back()["modified_at"] = rfc3339(card->modified);
    } catch (const ModelError&) {  // a damaged file; /v1/models gives the reason once the model was asked for
    }
  }
  return json_reply({{"models", std::move(list)}});
}

HttpReply ollama_ps(ModelPool& pool, const HttpRequest&) {
  Json list = Json::array();
  for (const ModelPool::Status& status : pool.statuses()) {
    if (!status.service) continue;
    try {
      list.push_back(entry_json(status.model, *card_of(status.model.path)));
    } catch (const ModelError&) {  // the file was removed or replaced
      continue;
    }
    list.back()["expires_at"] =
        status.expires_in ? rfc3339(unix_time() + status.expires_in->count()) : "9999-12-31T23:59:59Z";  // never
    list.back()["size_vram"] = 0;
    list.back()["context_length"] = status.service->generator().n_ctx();
  }
  return json_reply({{"models", std::move(list)}});
}

HttpReply ollama_show(Service& service, const HttpRequest& http) {
  (void)body_of(http);
  const std::shared_ptr<const ModelCard> shared = card_of(service.options().model_path);
  const ModelCard& card = *shared;
  Json metadata = Json::parse(card.metadata);
  const Json chat_template = metadata.value("tokenizer.chat_template", "");
  metadata.erase("tokenizer.chat_template");
  // Clients take the smaller of the trained and the served context for what they may send.
  const int n_ctx = service.generator().n_ctx();
  const std::string trained = card.architecture + ".context_length";
  if (metadata.value(trained, 0) > n_ctx) metadata[trained] = n_ctx;
  return json_reply({{"modelfile", ""},
                     {"parameters", format("%-30s %d", "num_ctx", n_ctx)},
                     {"template", chat_template},
                     {"details", details_json(card)},
                     {"model_info", std::move(metadata)},
                     {"capabilities", capabilities_json(service.generator())},
                     {"modified_at", rfc3339(card.modified)}});
}

HttpReply ollama_version(ModelPool& pool, const HttpRequest&) {
  const std::string& build = pool.options().common.build;
  return json_reply({{"version", build.substr(0, build.find(','))}});
}

}  // namespace specdec::server
