// Tokens' bytes into text: whole UTF-8 characters, and stop strings across tokens.
#include "check.h"
#include "engine/text_stream.h"

namespace {

using specdec::TextStream;
using Strings = std::vector<std::string>;

// The result of each push, then that of finish().
Strings pieces(const Strings& stop, const Strings& tokens) {
  TextStream stream(stop);
  Strings out;
  for (const std::string& token : tokens) out.push_back(stream.push(token));
  out.push_back(stream.finish());
  return out;
}

std::string joined(const Strings& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

const std::string bad = "\xEF\xBF\xBD";

}  // namespace

TEST(characters_come_out_whole) {
  CHECK(pieces({}, {"a", "\xC3", "\xA9", "b"}) == Strings({"a", "", "\xC3\xA9", "b", ""}));
  CHECK(pieces({}, {"\xF0\x9F", "\x98", "\x80!"}) == Strings({"", "", "\xF0\x9F\x98\x80!", ""}));
}

TEST(what_is_no_utf8_is_replaced) {
  CHECK(joined(pieces({}, {"a\xFF", "b"})) == "a" + bad + "b");
  CHECK(joined(pieces({}, {"\xC3(", "x"})) == bad + "(x");                   // lead byte without its tail
  CHECK(joined(pieces({}, {"\xE2\x82"})) == bad);                            // ends inside a character
  CHECK(joined(pieces({}, {"\xC0\x80"})) == bad + bad);                      // overlong
  CHECK(joined(pieces({}, {"\xED\xA0\x80"})) == bad + bad + bad);            // surrogate
  CHECK(joined(pieces({}, {"\xF4\x90\x80\x80"})) == bad + bad + bad + bad);  // above U+10FFFF
}

TEST(a_stop_string_ends_the_text_wherever_tokens_meet) {
  for (const Strings& tokens :
       {Strings{"one STOP two"}, Strings{"one S", "TO", "P two"}, Strings{"one ", "STOP", "x"}}) {
    TextStream stream({"STOP"});
    std::string text;
    for (const std::string& token : tokens) text += stream.push(token);
    CHECK(stream.stopped());
    CHECK(text + stream.finish() == "one ");
    CHECK(stream.push("more").empty());
  }
}

TEST(what_only_began_like_a_stop_string_is_returned) {
  CHECK(pieces({"STOP"}, {"aS", "T", "x"}) == Strings({"a", "", "STx", ""}));
  CHECK(pieces({"STOP"}, {"aST"}) == Strings({"a", "ST"}));
  CHECK(joined(pieces({"aab"}, {"a", "a", "a", "c"})) == "aaac");
}

TEST(the_earliest_of_several_stop_strings_counts) {
  CHECK(joined(pieces({"bc", "b", "d"}, {"ab", "cd"})) == "a");
  CHECK(joined(pieces({"\n\n", "def"}, {"x\n", "\ndef"})) == "x");
  for (const Strings& stop : {Strings{"two", "one"}, Strings{"one", "two"}})
    CHECK(joined(pieces(stop, {"zero one and two"})) == "zero ");  // in whatever order they are given
}

TEST(stop_strings_may_hold_characters_of_several_bytes) {
  CHECK(joined(pieces({"\xC3\xA9"}, {"caf", "\xC3", "\xA9!"})) == "caf");
}

TEST(an_empty_stop_string_is_rejected) {
  CHECK_THROWS(TextStream({"ok", ""}), std::invalid_argument, "stop has an empty string");
}

TEST_MAIN()
