#include "server/api_error.h"

#include <new>
#include <nlohmann/json.hpp>

#include "base/argument.h"
#include "base/error.h"
#include "sampling/dead_end.h"

namespace specdec::server {

namespace {

using Json = nlohmann::ordered_json;

Json openai_json(const ApiError& error) {
  Json json;
  json["message"] = error.what();
  json["type"] = error.type;
  json["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  json["code"] = error.status;
  if (error.full) {
    json["n_prompt_tokens"] = error.full->num_tokens;
    json["n_ctx"] = error.full->n_ctx;
  }
  return {{"error", json}};
}

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

Json anthropic_json(const ApiError& error) {
  std::string message = error.what();
  if (error.full) {  // agents recognise by these words that a conversation must be shortened
    message = "prompt is too long: " + std::to_string(error.full->num_tokens) + " tokens > " +
              std::to_string(error.full->n_ctx) + " maximum";
  }
  return {{"type", "error"}, {"error", {{"type", anthropic_type(error.status)}, {"message", message}}}};
}

}  // namespace

ApiError invalid_request(const std::string& field, const std::string& message) {
  return ApiError(400, "invalid_request_error", message, field);
}

ApiError to_api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& known) {
    return known;
  } catch (const ClientGone& gone) {
    return ApiError(499, "client_closed_request", gone.what());
  } catch (const ArgumentError& wrong) {
    return invalid_request(wrong.name(), wrong.what());
  } catch (const std::invalid_argument& wrong) {
    return invalid_request("", wrong.what());
  } catch (const ContextFull& full) {
    ApiError too_long(400, "exceed_context_size_error",
                      std::string(full.what()) + ": it exceeds the available context size");
    too_long.full = ApiError::Full{full.num_tokens, full.n_ctx};
    return too_long;
  } catch (const DeadEnd& end) {
    return invalid_request("", end.what());
  } catch (const QueueFull& full) {
    return ApiError(503, "unavailable_error", full.what());
  } catch (const Cancelled&) {
    return shutting_down();
  } catch (const std::bad_alloc&) {
    return ApiError(500, "server_error", "not enough memory");
  } catch (const std::exception& other) {
    return ApiError(500, "server_error", other.what());
  } catch (...) {
    return ApiError(500, "server_error", "an unknown C++ exception");
  }
}

nlohmann::ordered_json to_json(const ApiError& error, ErrorForm form) {
  if (form == ErrorForm::anthropic) return anthropic_json(error);
  if (form == ErrorForm::ollama) return {{"error", error.what()}};
  return openai_json(error);
}

ApiError shutting_down() { return ApiError(503, "unavailable_error", "the server is shutting down"); }

ErrorForm error_form(const std::string& path) {
  const auto begins_with = [&](const std::string& prefix) { return path.compare(0, prefix.size(), prefix) == 0; };
  if (begins_with("/v1/messages")) return ErrorForm::anthropic;
  if (begins_with("/api/")) return ErrorForm::ollama;
  return ErrorForm::openai;
}

}  // namespace specdec::server
