// Options of a request from JSON, under the names of its table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/request_options.h"

namespace specdec {

// null: not given, so that it stays as it is. Throws std::invalid_argument naming the option.
void set_option(Request& request, const RequestOption& option, const nlohmann::ordered_json& json);

}  // namespace specdec
