// Reads options of a request from JSON, with the names in the table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/request_options.h"

namespace specdec {

// JSON null means not given and changes nothing. Throws std::invalid_argument naming the option.
void set_option(Request& request, const RequestOption& option, const nlohmann::ordered_json& json);

}  // namespace specdec
