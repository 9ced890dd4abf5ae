// Who may use the server: API keys, and origins of web pages (CORS).
#pragma once

#include <string>
#include <vector>

namespace specdec::server {

// Whether `given` is one of the keys. The time depends only on the lengths.
bool is_one_of(const std::string& given, const std::vector<std::string>& keys);

// Whether pages of `origin` ("https://host:port") may use the server. allowed: origins; "*" for all; "localhost" for
// pages of this machine, with any port. Empty: no page may.
bool is_allowed_origin(const std::string& origin, const std::vector<std::string>& allowed);

}  // namespace specdec::server
