// Tokens in requests and replies; the endpoints /tokenize and /detokenize.
#pragma once

#include <string>
#include <vector>

#include "server/http_server.h"
#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

struct TokenizeOptions {
  Vocabulary::Part part = Vocabulary::Part::middle;
  bool special = true;  // control tokens written in the text are recognised
};
std::vector<Token> tokens_of(const Generator& generator, const std::string& text, const TokenizeOptions& options);

// A token id of the vocabulary. Throws ApiError.
Token read_token(const Generator& generator, const std::string& field, const Json& json);

std::vector<Token> read_tokens(const Generator& generator, const std::string& field, const Json& list);

// [104, 105]: the bytes of a token, which may be part of a character.
Json bytes_json(const std::string& bytes);

HttpReply tokenize(Service& service,
                   const HttpRequest& http);  // llama-server's fields, or vLLM's: prompt, add_special_tokens
HttpReply detokenize(Service& service, const HttpRequest& http);
HttpReply tokenizer_info(Service& service, const HttpRequest& http);  // vLLM's

}  // namespace specdec::server
