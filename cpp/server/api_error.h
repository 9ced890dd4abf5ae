// Errors as clients see them: an HTTP status, and JSON in the form of the client's API.
#pragma once

#include <cstddef>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>

namespace specdec::server {

struct ApiError : std::runtime_error {
  ApiError(int http_status, std::string error_type, const std::string& message, std::string field = "")
      : std::runtime_error(message), status(http_status), type(std::move(error_type)), param(std::move(field)) {}

  int status;
  std::string type;
  std::string param;  // the wrong field: "messages[2].role"; empty: none
  struct Full {       // for a prompt that does not fit: a lower bound on its tokens
    std::size_t num_tokens;
    int n_ctx;
  };
  std::optional<Full> full;
};

// An invalid request: status 400. field: "messages[2].role"; empty: none.
ApiError invalid_request(const std::string& field, const std::string& message);

// The client has closed its connection; nobody reads a reply.
struct ClientGone : std::runtime_error {
  ClientGone() : std::runtime_error("the client has closed the connection") {}
};

// Converts any exception of a handler: errors of the request become 4xx, a full queue and the server's shutdown 503,
// all others 500.
ApiError to_api_error(const std::exception_ptr& error);

// openai: {"error": {"message", "type", "param", "code"}} with llama-server's names of the types; the code is the
// status, and the error for a prompt that does not fit has llama-server's "n_prompt_tokens" and "n_ctx". anthropic:
// {"type": "error", "error": {"type", "message"}} with Anthropic's names. ollama: {"error": message}.
ApiError shutting_down();  // 503

enum class ErrorForm { openai, anthropic, ollama };
nlohmann::ordered_json to_json(const ApiError& error, ErrorForm form = ErrorForm::openai);

ErrorForm error_form(const std::string& path);  // the form of the endpoint's API

}  // namespace specdec::server
