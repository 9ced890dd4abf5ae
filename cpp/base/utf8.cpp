#include "base/utf8.h"

#include <cstdio>

namespace specdec {
namespace {

constexpr const char* replacement = "\xEF\xBF\xBD";  // U+FFFD

struct Character {
  std::size_t length;  // bytes to consume
  enum { valid, invalid, incomplete } state;
};

// The character at the start of `text`, by the table of well-formed sequences (Unicode 15, table 3-7).
Character first_character(const char* text, std::size_t size) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, Character::valid};
  if (lead < 0xC2 || lead > 0xF4) return {1, Character::invalid};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == size) return {i, Character::incomplete};
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1) {  // no overlong forms, no surrogates, nothing above U+10FFFF
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (byte(i) < low || byte(i) > high) return {i, Character::invalid};
  }
  return {length, Character::valid};
}

std::string hexadecimal(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "\\x%02x", static_cast<unsigned>(byte));
  return text;
}

}  // namespace

void decode_utf8(std::string& bytes, std::string& text) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Character c = first_character(bytes.data() + at, bytes.size() - at);
    if (c.state == Character::incomplete) break;
    if (c.state == Character::valid) text.append(bytes, at, c.length);
    else text += replacement;
    at += c.length;
  }
  bytes.erase(0, at);
}

std::string valid_utf8(std::string bytes) {
  std::string text;
  decode_utf8(bytes, text);
  return bytes.empty() ? text : text + replacement;
}

std::string lower_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

std::string printable(const std::string& bytes) {
  const std::string valid = valid_utf8(bytes);
  std::string result;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    if (byte == '\n') {
      result += "\\n";
    } else if (byte == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += hexadecimal(byte);
    } else if (byte == 0xc2 && static_cast<unsigned char>(valid[i + 1]) < 0xa0) {  // controls, too: U+0080 .. U+009F
      result += hexadecimal(static_cast<unsigned char>(valid[++i]));
    } else {
      result += valid[i];
    }
  }
  return result;
}

std::size_t utf8_length(char first) {
  const auto lead = static_cast<unsigned char>(first);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

char32_t utf8_character(std::string_view text, std::size_t at) {
  constexpr unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  const std::string_view bytes = text.substr(at, utf8_length(text[at]));
  char32_t value = static_cast<unsigned char>(bytes[0]) & masks[bytes.size()];
  for (const char byte : bytes.substr(1)) value = (value << 6) | (static_cast<unsigned char>(byte) & 0x3F);
  return value;
}

}  // namespace specdec
