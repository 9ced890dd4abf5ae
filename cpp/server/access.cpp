#include "server/access.h"

#include <algorithm>
#include <cstddef>

namespace specdec::server {
namespace {

bool equals(const std::string& given, const std::string& key) {
  unsigned difference = given.size() == key.size() ? 0u : 1u;
  for (std::size_t i = 0; i < given.size() && !key.empty(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]));
  }
  return difference == 0;
}

// The host of an origin such as "http://localhost:3000".
std::string host_of(const std::string& origin) {
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string::npos) return "";
  const std::string rest = origin.substr(scheme + 3);
  const std::size_t end = rest[0] == '[' ? rest.find(']') : rest.find(':');
  return end == std::string::npos ? rest : rest.substr(0, rest[0] == '[' ? end + 1 : end);
}

bool is_this_machine(const std::string& origin) {
  const std::string host = host_of(origin);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

}  // namespace

bool is_one_of(const std::string& given, const std::vector<std::string>& keys) {
  bool found = false;
  // No early exit: timing must not reveal which key matched.
  for (const std::string& key : keys) found |= equals(given, key);
  return found;
}

bool is_allowed_origin(const std::string& origin, const std::vector<std::string>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& one) {
    return one == "*" || one == origin || (one == "localhost" && is_this_machine(origin));
  });
}

}  // namespace specdec::server
