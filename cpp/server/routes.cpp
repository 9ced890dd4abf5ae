#include "server/routes.h"

#include <functional>
#include <string>
#include <vector>

#include "server/endpoints.h"
#include "server/messages.h"
#include "server/tokens.h"

namespace specdec::server {
namespace {

struct GetRoute {
  std::vector<std::string> paths;
  HttpReply (*endpoint)(Service&);
  bool is_public = false;
};
struct PostRoute {
  std::vector<std::string> paths;
  HttpReply (*endpoint)(Service&, const HttpRequest&);
};

}  // namespace

void add_routes(HttpServer& http, Service& service) {
  std::vector<GetRoute> get_routes = {
      {{"/health", "/v1/health"}, health, true},
      {{"/v1/models", "/models"}, models},
      {{"/props"}, props},
      {{"/slots"}, slots},
      {{"/tokenizer_info"}, tokenizer_info},
      {{"/metrics"}, metrics},
      {{"/api/tags"}, ollama_tags},
      {{"/api/ps"}, ollama_ps},
      {{"/api/version"}, ollama_version},
  };
  if (service.options().has_page) get_routes.push_back({{"/", "/index.html"}, page, true});
  const std::vector<PostRoute> post_routes = {
      {{"/v1/chat/completions", "/chat/completions"}, chat_completions},
      {{"/v1/completions"}, completions},
      {{"/v1/responses", "/responses"}, responses},
      {{"/v1/embeddings"}, embeddings},
      {{"/completion", "/completions"}, llama_completion},
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
  };
  for (const GetRoute& route : get_routes) {
    const auto endpoint = route.endpoint;
    for (const std::string& path : route.paths) {
      http.get(path, [&service, endpoint](const HttpRequest&) { return endpoint(service); }, route.is_public);
    }
  }
  http.get("/v1/models/.+", [&service](const HttpRequest& request) { return model(service, request); });
  for (const PostRoute& route : post_routes) {
    const auto endpoint = route.endpoint;
    for (const std::string& path : route.paths) {
      http.post(path, [&service, endpoint](const HttpRequest& request) { return endpoint(service, request); });
    }
  }
}

}  // namespace specdec::server
