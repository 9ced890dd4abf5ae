// Turns bytes of unknown origin into valid or printable text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace specdec {

// Moves complete characters from the front of `bytes` to the end of `text`; an incomplete last one stays. Bytes that
// are not UTF-8 become U+FFFD.
void decode_utf8(std::string& bytes, std::string& text);

// The same for complete text: an incomplete last character becomes U+FFFD, too.
std::string valid_utf8(std::string bytes);

// Makes names and texts from files safe to show on one line of a terminal: escapes control characters and replaces
// bytes that are not UTF-8.
std::string printable(const std::string& bytes);

// Converts ASCII letters to lower case; all other bytes stay.
std::string lower_case(std::string text);

// For valid UTF-8: the length of a character in bytes, given its first byte; the character that starts at byte `at`.
std::size_t utf8_length(char first);
char32_t utf8_character(std::string_view text, std::size_t at);

}  // namespace specdec
