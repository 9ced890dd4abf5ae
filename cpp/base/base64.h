// Base64 (RFC 4648).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace specdec {

std::string to_base64(std::string_view bytes);

// Reads the standard and the URL alphabet, with or without padding, and skips white space; nullopt for anything else.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace specdec
