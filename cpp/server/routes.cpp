#include "server/routes.h"

#include <string>
#include <vector>

#include "server/endpoints.h"
#include "server/messages.h"
#include "server/model_requests.h"
#include "server/tokens.h"

namespace specdec::server {
namespace {

struct ServerRoute {
  std::vector<std::string> paths;
  HttpReply (*endpoint)(ModelPool&, const HttpRequest&);
  bool is_public = false;
};
struct ModelRoute {
  std::vector<std::string> paths;
  Endpoint endpoint;
};

}  // namespace

void add_routes(HttpServer& http, ModelPool& pool) {
  std::vector<ServerRoute> server_gets = {
      {{"/health", "/v1/health"}, health, true},
      {{"/v1/models", "/models"}, models},
      {{"/v1/models/.+"}, model},
      {{"/props"}, props},
      {{"/metrics"}, metrics},
      {{"/api/tags"}, ollama_tags},
      {{"/api/ps"}, ollama_ps},
      {{"/api/version"}, ollama_version},
  };
  if (pool.options().common.has_page) server_gets.push_back({{"/", "/index.html"}, page, true});
  const std::vector<ServerRoute> server_posts = {
      {{"/models/load"}, load_model},
      {{"/models/unload"}, unload_model},
  };
  const std::vector<ModelRoute> model_gets = {
      {{"/slots"}, slots},
      {{"/tokenizer_info"}, tokenizer_info},
  };
  const std::vector<ModelRoute> model_posts = {
      {{"/v1/chat/completions", "/chat/completions"}, chat_completions},
      {{"/v1/completions"}, completions},
      {{"/v1/responses", "/responses"}, responses},
      {{"/v1/embeddings"}, embeddings},
      {{"/v1/score"}, scores},
      {{"/embedding", "/embeddings"}, any_embeddings},
      {{"/completion"}, llama_completion},
      {{"/completions"}, any_completion},
      {{"/infill"}, llama_infill},
      {{"/v1/messages"}, anthropic_messages},
      {{"/v1/messages/count_tokens"}, anthropic_count_tokens},
      {{"/api/chat"}, ollama_chat},
      {{"/api/generate"}, ollama_generate},
      {{"/api/embed"}, ollama_embed},
      {{"/api/embeddings"}, ollama_embeddings},
      {{"/api/show"}, ollama_show},
      {{"/tokenize"}, tokenize},
      {{"/detokenize"}, detokenize},
      {{"/apply-template"}, apply_template},
      {{"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"}, count_chat_tokens},
      {{"/slots/[0-9]+"}, slot_action},
  };
  const auto of_server = [&pool](auto endpoint) {
    return [&pool, endpoint](const HttpRequest& request) { return endpoint(pool, request); };
  };
  const auto of_model = [&pool](auto run, Endpoint endpoint) {
    return [&pool, run, endpoint](const HttpRequest& request) { return run(pool, endpoint, request); };
  };
  for (const ServerRoute& route : server_gets) {
    for (const std::string& path : route.paths) http.get(path, of_server(route.endpoint), route.is_public);
  }
  for (const ServerRoute& route : server_posts) {
    for (const std::string& path : route.paths) http.post(path, of_server(route.endpoint));
  }
  for (const ModelRoute& route : model_gets) {
    for (const std::string& path : route.paths) http.get(path, of_model(answer_if_loaded, route.endpoint));
  }
  for (const ModelRoute& route : model_posts) {
    for (const std::string& path : route.paths) http.post(path, of_model(answer, route.endpoint));
  }
}

}  // namespace specdec::server
