// Errors as clients see them: an HTTP status and JSON in the form of the API that they use.
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
  std::string param;  // the field that is wrong: "messages[2].role"; empty: none
  struct Full {       // of a prompt that does not fit: at least so many tokens
    std::size_t num_tokens;
    int n_ctx;
  };
  std::optional<Full> full;
};

// A request that is wrong: status 400. field: "messages[2].role"; empty: none.
ApiError invalid_request(const std::string& field, const std::string& message);

// The client has closed its connection; nobody reads a reply.
struct ClientGone : std::runtime_error {
  ClientGone() : std::runtime_error("the client has closed the connection") {}
};

// Any exception of a handler. What is the request's fault is a 4xx, a full queue and the end of the server 503, the
// rest 500.
ApiError to_api_error(const std::exception_ptr& error);

// openai: {"error": {"message", "type", "param", "code"}} with llama-server's names of the types; the code is the
// status, and a prompt that does not fit has "n_prompt_tokens" and "n_ctx", as llama-server has them.
// anthropic: {"type": "error", "error": {"type", "message"}} with Anthropic's names.
// ollama: {"error": message}.
ApiError shutting_down();  // 503

enum class ErrorForm { openai, anthropic, ollama };
nlohmann::ordered_json to_json(const ApiError& error, ErrorForm form = ErrorForm::openai);

ErrorForm error_form(const std::string& path);  // of the API that an endpoint belongs to

}  // namespace specdec::server
