// Keys from the bytes of a terminal, whole and in pieces of any size.
#include <string>
#include <vector>

#include "check.h"
#include "cli/terminal/keys.h"

using namespace specdec::cli;

namespace {

// "<enter>" for keys, the text itself for text.
std::string name(const KeyPress& key) {
  static const char* const names[] = {
      "",           "enter",      "new_line",       "backspace",    "erase",        "left",
      "right",      "up",         "down",           "home",         "end",          "word_left",
      "word_right", "erase_word", "erase_to_start", "erase_to_end", "clear_screen", "complete",
      "search",     "cancel",     "interrupt",      "end_of_input", "suspend"};
  return key.key == Key::text ? key.text : "<" + std::string(names[static_cast<int>(key.key)]) + ">";
}

std::string decoded(const std::string& bytes, std::size_t piece = 1000) {
  KeyDecoder decoder;
  std::string result;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    decoder.add(std::string_view(bytes).substr(at, piece));
    while (const auto key = decoder.next()) result += name(*key);
  }
  return result;
}

}  // namespace

TEST(text_and_keys_in_any_pieces) {
  const std::string bytes =
      "a\xC3\xBC\xF0\x9F\x98\x80\tb\r\x7F\x1B[A\x1B[1;5C\x1BOH\x1B[3~\x1B\r\x1B"
      "b\x17\x03\x04\n\x1B[200~x\r\ny\tz\x1B[0m\n\x07\x1B[201~q\x12\x07";
  const std::string keys =
      "a\xC3\xBC\xF0\x9F\x98\x80<complete>b<enter><backspace><up><word_right><home><erase><new_line><word_left><erase_"
      "word><"
      "interrupt>"
      "<end_of_input><enter>x\ny\tz[0m\nq<search><cancel>";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) CHECK(decoded(bytes, piece) == keys);
}

TEST(what_means_nothing_is_dropped) {
  CHECK(decoded("a\x1B[99;3~b\x1B[Zc\x1BOPd\x1Bqe\x01") == "abcde<home>");
  CHECK(decoded(std::string("\x1B[200~\x1B[201~x")) == "x");
}

TEST(function_keys_of_the_linux_console_type_nothing) {
  const std::string bytes = "a\x1B[[A\x1B[[Eb\x1B[17~c";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) CHECK(decoded(bytes, piece) == "abc");
}

TEST(a_sequence_that_another_key_cuts_short) {
  CHECK(decoded("a\x1B[1\rb") == "a<enter>b");
  CHECK(decoded("\x1B[1;\xC3\xBCx") == "\xC3\xBCx");  // whether char has a sign or not
  CHECK(decoded("\x1B\xC3\xBCx") == "\xC3\xBCx");
}

TEST(bytes_that_are_not_utf8) {
  CHECK(decoded("a\xFF"
                "b") ==
        "a\xEF\xBF\xBD"
        "b");
  CHECK(decoded("\xC3\r") == "<enter>");  // cut short
  CHECK(decoded("\x1B[200~\xC3(\x1B[201~") == "\xEF\xBF\xBD(");
}

TEST(a_long_paste_takes_linear_time) {
  const std::string text(8 << 20, 'x');
  const std::string bytes = "\x1B[200~" + text + "\x1B[201~";
  CHECK(decoded(bytes, 4096) == text);
}

TEST_MAIN()
