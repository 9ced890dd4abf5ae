// Embeddings of the texts of a request, for the endpoints of each API.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/http_server.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

struct Embeddings {
  std::vector<std::vector<float>> rows;  // of each text, of length 1
  std::int64_t num_tokens = 0;
};

struct EmbeddingInputs {
  std::vector<std::vector<Token>> texts;
  bool is_list = false;  // several were asked for, if only one is there
};

// A field with a text, token ids, or a list of these. is_cut: texts that are longer than the context end with it;
// otherwise they are errors.
EmbeddingInputs read_embedding_inputs(const Service& service, const Fields& body, const std::string& field,
                                      bool is_cut);

// "dimensions": the first values of each row, again of length 1. Throws ApiError, ClientGone.
Embeddings embed_all(Service& service, const Fields& body, const EmbeddingInputs& inputs, const HttpRequest& http);

}  // namespace specdec::server
