#include "engine/text_stream.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace specdec {
namespace {

constexpr const char* replacement = "\xEF\xBF\xBD";  // U+FFFD

struct Character {
  std::size_t length;  // bytes to consume
  enum { valid, invalid, incomplete } state;
};

// Decodes the character at the start of `text`, by the table of well-formed sequences (Unicode 15, table 3-7).
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

// Moves complete characters from bytes to text; an incomplete one remains.
void decode(std::string& bytes, std::string& text) {
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

// Length of the longest suffix of `text` that is a proper prefix of `stop`.
std::size_t partial_match(const std::string& text, const std::string& stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.compare(text.size() - length, length, stop, 0, length) == 0) return length;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stop) : stop_(std::move(stop)) {
  for (const std::string& s : stop_) {
    if (s.empty()) throw std::invalid_argument("stop: a stop string is empty; each must have at least one character");
  }
  bytes_.reserve(256);  // more than a token and a stop string usually have, so that tokens do not allocate
  held_.reserve(256);
}

std::string TextStream::push(const std::string& bytes) {
  if (stopped_) return {};
  bytes_ += bytes;
  decode(bytes_, held_);

  std::size_t end = std::string::npos, hold = 0;
  for (const std::string& s : stop_) {
    end = std::min(end, held_.find(s));
    hold = std::max(hold, partial_match(held_, s));
  }
  if (end == std::string::npos) return release(held_.size() - hold);
  stopped_ = true;
  bytes_.clear();
  held_.resize(end);
  return release(end);
}

std::string TextStream::finish() {
  if (!bytes_.empty()) held_ += replacement;
  bytes_.clear();
  return release(held_.size());
}

std::string TextStream::release(std::size_t length) {
  std::string text = held_.substr(0, length);
  held_.erase(0, length);
  return text;
}

}  // namespace specdec
