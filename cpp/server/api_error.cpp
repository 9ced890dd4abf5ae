#include "server/api_error.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/request_options.h"

namespace specdec::server {

ApiError invalid_request(const std::string& field, const std::string& message) {
  return ApiError(400, "invalid_request_error", message, field);
}

namespace {

// The option that a message of the engine is about, which it names first: "stop: ...", "a token of logit_bias is ...".
std::string option_in(const std::string& message) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyz_";
  for (std::size_t begin = message.find_first_of(letters), end = 0; begin != std::string::npos;
       begin = message.find_first_of(letters, end)) {
    end = std::min(message.find_first_not_of(letters, begin), message.size());
    const std::string word = message.substr(begin, end - begin);
    if (option::find(request_options(), word) != nullptr) return word;
  }
  return "";
}

}  // namespace

ApiError to_api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& known) {
    return known;
  } catch (const ClientGone& gone) {
    return ApiError(499, "client_closed_request", gone.what());
  } catch (const std::invalid_argument& wrong) {
    return invalid_request(option_in(wrong.what()), wrong.what());
  } catch (const ContextFull& full) {
    ApiError too_long(400, "exceed_context_size_error", std::string(full.what()) + ": it exceeds the available context size");
    too_long.full = ApiError::Full{full.num_tokens, full.n_ctx};
    return too_long;
  } catch (const QueueFull& full) {
    return ApiError(503, "unavailable_error", full.what());
  } catch (const Cancelled&) {
    return ApiError(503, "unavailable_error", "the server is shutting down");
  } catch (const std::bad_alloc&) {
    return ApiError(500, "server_error", "not enough memory");
  } catch (const std::exception& other) {
    return ApiError(500, "server_error", other.what());
  } catch (...) {
    return ApiError(500, "server_error", "an unknown C++ exception");
  }
}

nlohmann::ordered_json to_json(const ApiError& error) {
  nlohmann::ordered_json json;
  json["message"] = error.what();
  json["type"] = error.type;
  json["param"] = error.param.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(error.param);
  json["code"] = error.status;
  if (error.full) {
    json["n_prompt_tokens"] = error.full->num_tokens;
    json["n_ctx"] = error.full->n_ctx;
  }
  return {{"error", json}};
}

}  // namespace specdec::server
