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
  std::vector<std::vector<float>> rows;  // one per text, with norm 1
  std::int64_t num_tokens = 0;
};

struct EmbeddingInputs {
  std::vector<std::vector<Token>> texts;
  bool is_list = false;  // the field is a list, even if it has only one text
};

// Reads a field with a text, token ids, or a list of these. is_cut: texts longer than the context are cut off;
// otherwise they are errors.
EmbeddingInputs read_embedding_inputs(const Service& service, const Fields& body, const std::string& field,
                                      bool is_cut);

// If "dimensions" is given, only that many first values of each row are kept, normalised again. Throws ApiError,
// ClientGone.
Embeddings embed_all(Service& service, const Fields& body, const EmbeddingInputs& inputs, const HttpRequest& http);

}  // namespace specdec::server
