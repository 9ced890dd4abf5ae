// Fields of requests to any endpoint that are not options of the engine. Unknown fields are ignored; with
// --strict-fields they are errors, because they may be misspelled.
#pragma once

#include <string>

namespace specdec::server {

bool is_known_field(const std::string& name);

}  // namespace specdec::server
