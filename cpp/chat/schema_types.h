// The types that a schema within a document allows. A header of its own, because it names nlohmann's library.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "chat/argument_types.h"

namespace specdec {

ArgumentTypes types_in(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& document);

}  // namespace specdec
