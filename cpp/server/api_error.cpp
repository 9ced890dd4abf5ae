#include "server/api_error.h"

#include <new>
#include <nlohmann/json.hpp>

#include "base/argument.h"
#include "base/error.h"

namespace specdec::server {

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
