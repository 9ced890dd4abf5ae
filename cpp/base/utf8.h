// Bytes of unknown origin as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace specdec {

// Moves complete characters from the front of `bytes` to the end of `text`; an incomplete last one stays. Bytes that
// are not UTF-8 become U+FFFD.
void decode_utf8(std::string& bytes, std::string& text);

// All of it: an incomplete last character becomes U+FFFD, too.
std::string valid_utf8(std::string bytes);

// Safe to show on one line: control characters escaped, bytes that are not UTF-8 replaced. For names and texts from
// files, which must not reach a terminal as they are.
std::string printable(const std::string& bytes);

// ASCII letters in lower case; all other bytes as they are.
std::string lower_case(std::string text);

// For valid UTF-8: the bytes of a character, from its first one, and the character that starts at a byte.
std::size_t utf8_length(char first);
char32_t utf8_character(std::string_view text, std::size_t at);

}  // namespace specdec
