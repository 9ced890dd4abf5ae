// Fields of requests to any endpoint that are no options of the engine. Unknown ones are ignored, or with
// --strict-fields an error, because they may be misspelled.
#pragma once

#include <string>

namespace specdec::server {

bool is_known_field(const std::string& name);

}  // namespace specdec::server
