// POST /api/embed and /api/embeddings of Ollama.
#include <chrono>

#include "server/embeddings.h"
#include "server/endpoints.h"
#include "server/replies.h"

namespace specdec::server {

HttpReply ollama_embed(Service& service, const HttpRequest& http) {
  const auto start = std::chrono::steady_clock::now();
  const Json& body = body_of(http);
  const Fields fields(body);
  const bool is_cut = fields.flag("truncate", true);
  const Embeddings found = embed_all(service, fields, read_embedding_inputs(service, fields, "input", is_cut), http);
  const auto duration = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
  return json_reply({{"model", service.options().model_name},
                     {"embeddings", found.rows},
                     {"total_duration", duration.count()},
                     {"load_duration", 0},
                     {"prompt_eval_count", found.num_tokens}});
}

// Ollama's older form, with one text.
HttpReply ollama_embeddings(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  (void)fields.required_text("prompt");  // one text
  const Embeddings found = embed_all(service, fields, read_embedding_inputs(service, fields, "prompt", true), http);
  return json_reply({{"embedding", found.rows[0]}});
}

}  // namespace specdec::server
