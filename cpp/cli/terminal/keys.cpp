#include "cli/terminal/keys.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/utf8.h"

namespace specdec::cli {
namespace {

constexpr std::string_view paste_start = "\x1b[200~", paste_end = "\x1b[201~";

// Compares as bytes, whether char is signed or not.
bool is_between(char byte, unsigned char low, unsigned char high) {
  return static_cast<unsigned char>(byte) >= low && static_cast<unsigned char>(byte) <= high;
}

constexpr char control(char letter) { return static_cast<char>(letter & 31); }

std::optional<Key> key_of_control(char byte) {
  switch (byte) {
    case control('A'):
      return Key::home;
    case control('B'):
      return Key::left;
    case control('C'):
      return Key::interrupt;
    case control('D'):
      return Key::end_of_input;
    case control('E'):
      return Key::end;
    case control('F'):
      return Key::right;
    case control('G'):
      return Key::cancel;
    case control('H'):
    case 127:
      return Key::backspace;
    case '\t':
      return Key::complete;
    case '\n':
    case '\r':
      return Key::enter;
    case control('K'):
      return Key::erase_to_end;
    case control('L'):
      return Key::clear_screen;
    case control('N'):
      return Key::down;
    case control('P'):
      return Key::up;
    case control('R'):
      return Key::search;
    case control('U'):
      return Key::erase_to_start;
    case control('W'):
      return Key::erase_word;
    case control('Z'):
      return Key::suspend;
    default:
      return std::nullopt;
  }
}

// The key for a byte after ESC.
std::optional<Key> key_of_alt(char byte) {
  switch (byte) {
    case '\r':
    case '\n':
      return Key::new_line;
    case 'b':
      return Key::word_left;
    case 'f':
      return Key::word_right;
    case 127:
      return Key::erase_word;
    default:
      return std::nullopt;
  }
}

// The key for a sequence after ESC [ or ESC O: parameters ("1;5") and a final byte. With a modifier (5: Ctrl, 3: Alt),
// an arrow jumps over words.
std::optional<Key> key_of_sequence(std::string_view parameters, char final) {
  const bool by_word = parameters.find(';') != std::string_view::npos;
  switch (final) {
    case 'A':
      return Key::up;
    case 'B':
      return Key::down;
    case 'C':
      return by_word ? Key::word_right : Key::right;
    case 'D':
      return by_word ? Key::word_left : Key::left;
    case 'H':
      return Key::home;
    case 'F':
      return Key::end;
    case '~':
      if (parameters == "1" || parameters == "7") return Key::home;
      if (parameters == "4" || parameters == "8") return Key::end;
      if (parameters == "3") return Key::erase;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// The text without control characters except "\n" and "\t".
std::string pasted(const std::string& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char byte = bytes[i];
    if (byte == '\r') {
      text += '\n';
      if (i + 1 < bytes.size() && bytes[i + 1] == '\n') ++i;
    } else if (is_between(byte, 32, 255) ? byte != 127 : byte == '\n' || byte == '\t') {
      text += byte;
    }
  }
  return valid_utf8(text);
}

}  // namespace

std::optional<KeyPress> KeyDecoder::next() {
  std::optional<KeyPress> key;
  while (!bytes_.empty() && !key && decode(key)) {
  }
  return key;
}

std::string KeyDecoder::take(std::size_t count) {
  std::string taken = bytes_.substr(0, count);
  bytes_.erase(0, count);
  return taken;
}

// Removes one key or meaningless sequence from bytes_; returns false if it is incomplete.
bool KeyDecoder::decode(std::optional<KeyPress>& key) {
  if (bytes_.front() == '\x1b') return decode_escape(key);
  const auto is_control = [](char byte) { return is_between(byte, 0, 31) || byte == 127; };
  if (is_control(bytes_.front())) {
    if (const std::optional<Key> found = key_of_control(take(1).front())) key = KeyPress{*found, {}};
    return true;
  }
  std::string text, run = take(idx(std::find_if(bytes_.begin(), bytes_.end(), is_control) - bytes_.begin()));
  decode_utf8(run, text);
  const bool is_complete = !text.empty();
  if (is_complete) key = KeyPress{Key::text, std::move(text)};
  else if (!bytes_.empty()) run.clear();  // a control character cuts the character short
  bytes_.insert(0, run);
  return is_complete || run.empty();
}

bool KeyDecoder::decode_escape(std::optional<KeyPress>& key) {
  if (bytes_.size() < 2) return false;
  if (is_between(bytes_[1], 0x80, 0xff)) {  // Alt with a non-ASCII letter types the letter
    take(1);
    return true;
  }
  if (bytes_[1] != '[' && bytes_[1] != 'O') {
    if (const std::optional<Key> found = key_of_alt(take(2)[1])) key = KeyPress{*found, {}};
    return true;
  }
  // The Linux console sends ESC [ [ A for F1.
  const std::size_t start = bytes_.compare(0, 3, "\x1b[[") == 0 ? 3 : 2;
  std::size_t length = start;
  while (length < bytes_.size() && is_between(bytes_[length], 0x20, 0x3f)) ++length;
  if (length == bytes_.size()) return false;
  const bool is_complete = is_between(bytes_[length], 0x40, 0x7e);
  if (is_complete) ++length;
  if (!is_complete || start == 3) {  // cut short by another key, or a key that has no meaning here
    take(length);
    return true;
  }
  if (bytes_.compare(0, length, paste_start) == 0) return decode_paste(key);
  const std::string sequence = take(length);
  if (const std::optional<Key> found =
          key_of_sequence(std::string_view(sequence).substr(2, length - 3), sequence.back())) {
    key = KeyPress{*found, {}};
  }
  return true;
}

bool KeyDecoder::decode_paste(std::optional<KeyPress>& key) {
  const std::size_t end = bytes_.find(paste_end, std::max(searched_, paste_start.size()));
  if (end == std::string::npos) {
    searched_ = bytes_.size() - std::min(bytes_.size(), paste_end.size());
    return false;
  }
  searched_ = 0;
  const std::string sequence = take(end + paste_end.size());
  std::string text = pasted(sequence.substr(paste_start.size(), end - paste_start.size()));
  if (!text.empty()) key = KeyPress{Key::text, std::move(text)};
  return true;
}

}  // namespace specdec::cli
