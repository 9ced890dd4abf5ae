// POST /v1/embeddings of the OpenAI API, and what it shares with Ollama's endpoints.
#include "server/embeddings.h"

#include <algorithm>
#include <limits>

#include "base/base64.h"
#include "base/error.h"
#include "engine/embedder.h"
#include "engine/prompt.h"
#include "server/deadline.h"
#include "server/endpoints.h"
#include "server/replies.h"
#include "server/tokens.h"

namespace specdec::server {
namespace {

std::vector<Token> read_text(const Service& service, const std::string& path, const Json& json, bool is_cut) {
  const Generator& generator = service.generator();
  std::vector<Token> tokens;
  if (json.is_array()) {
    tokens = read_tokens(generator, path, json);
  } else if (!json.is_string()) {
    throw wrong_value(path, json, "a string or a list of token ids");
  } else if (is_cut) {
    tokens = generator.tokenize(json.get<std::string>());
  } else if (!json.get_ref<const std::string&>().empty()) {
    tokens = tokenize_prompt(generator.vocabulary(), json.get<std::string>(), generator.n_ctx(), {});
  }
  if (tokens.empty()) throw invalid_request(path, path + " is empty; it must have at least one character or token");
  const auto most = static_cast<std::size_t>(generator.n_ctx());
  if (is_cut && tokens.size() > most) tokens.resize(most);
  return tokens;
}

// The bytes of F32 numbers, little-endian, in base64.
std::string base64(const std::vector<float>& row) {
  return to_base64({reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float)});
}

bool read_is_base64(const Fields& body) {
  const std::string format = body.text("encoding_format", "float");
  if (format != "float" && format != "base64") throw wrong_value("encoding_format", format, R"("float" or "base64")");
  return format == "base64";
}

}  // namespace

EmbeddingInputs read_embedding_inputs(const Service& service, const Fields& body, const std::string& field,
                                      bool is_cut) {
  const Json& json = body.required(field);
  const std::string path = body.path(field);
  EmbeddingInputs inputs;
  const bool is_tokens = json.is_array() && !json.empty() && json[0].is_number();
  inputs.is_list = json.is_array() && !is_tokens;
  if (!inputs.is_list) {
    inputs.texts.push_back(read_text(service, path, json, is_cut));
    return inputs;
  }
  for (std::size_t i = 0; i < json.size(); ++i)
    inputs.texts.push_back(read_text(service, path + "[" + std::to_string(i) + "]", json[i], is_cut));
  return inputs;
}

Embeddings embed_all(Service& service, const Fields& body, const EmbeddingInputs& inputs, const HttpRequest& http) {
  const Deadline deadline(http.is_gone, service.options().request_seconds);
  const int dimensions = body.whole("dimensions", 0, 1, std::numeric_limits<int>::max());
  Embeddings result;
  for (const std::vector<Token>& text : inputs.texts) {
    deadline.check();
    std::vector<float> row = service.embed(text, http.is_gone);
    if (dimensions > static_cast<int>(row.size())) {
      throw invalid_request("dimensions", "dimensions is " + std::to_string(dimensions) +
                                              "; the model's embeddings have " + std::to_string(row.size()));
    }
    if (dimensions > 0) {
      row.resize(static_cast<std::size_t>(dimensions));
      normalise(row);
    }
    result.rows.push_back(std::move(row));
    result.num_tokens += static_cast<std::int64_t>(text.size());
  }
  return result;
}

HttpReply embeddings(Service& service, const HttpRequest& http) {
  const Json& body = body_of(http);
  const Fields fields(body);
  const bool is_base64 = read_is_base64(fields);
  const EmbeddingInputs inputs = read_embedding_inputs(service, fields, "input", false);
  if (inputs.texts.empty()) throw wrong_value("input", body["input"], "at least one text");
  const Embeddings found = embed_all(service, fields, inputs, http);
  Json data = Json::array();
  for (const std::vector<float>& row : found.rows) {
    data.push_back(
        {{"object", "embedding"}, {"index", data.size()}, {"embedding", is_base64 ? Json(base64(row)) : Json(row)}});
  }
  return json_reply({{"object", "list"},
                     {"data", std::move(data)},
                     {"model", service.options().model_name},
                     {"usage", {{"prompt_tokens", found.num_tokens}, {"total_tokens", found.num_tokens}}}});
}

// llama-server's older paths: its own form for "content", OpenAI's for "input".
HttpReply any_embeddings(Service& service, const HttpRequest& http) {
  const Fields fields(body_of(http));
  if (fields.find("content") == nullptr) return embeddings(service, http);
  const EmbeddingInputs inputs = read_embedding_inputs(service, fields, "content", false);
  if (inputs.texts.empty()) throw wrong_value("content", fields.required("content"), "at least one text");
  Json list = Json::array();
  for (const std::vector<float>& row : embed_all(service, fields, inputs, http).rows)
    list.push_back({{"index", list.size()}, {"embedding", Json::array({row})}});
  return json_reply(list);
}

}  // namespace specdec::server
