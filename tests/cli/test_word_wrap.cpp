// Lines broken between words, whatever pieces the text comes in.
#include <string>

#include "check.h"
#include "cli/terminal/word_wrap.h"

using namespace specdec::cli;

namespace {

// What a terminal that obeys "ESC [ n D ESC [ K" shows.
std::string shown(const std::string& text, int width, std::size_t piece, Style style = Style::plain) {
  WordWrap wrap;
  std::string result;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    std::string out = wrap.add(text.substr(at, piece), style, style != Style::plain, width);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out.compare(i, 2, "\x1b[") != 0) {
        while (out[i] == '\n' && !result.empty() && result.back() == ' ') result.pop_back();
        result += out[i];
        continue;
      }
      const std::size_t end = out.find_first_of("DKm", i);
      if (out[end] == 'D') result.resize(result.size() - std::stoul(out.substr(i + 2)));
      i = end;
    }
  }
  return result;
}

}  // namespace

TEST(words_that_do_not_fit_begin_a_line) {
  const std::string text = "one two three four five six\nseven eight nine ten";
  const std::string expected = "one two\nthree four\nfive six\nseven\neight nine\nten";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) CHECK(shown(text, 11, piece) == expected);
  CHECK(shown(text, 11, 3, Style::green) == expected);
}

TEST(words_longer_than_a_line_are_left_to_the_terminal) {
  CHECK(shown("ab abcdefghijklmnop cd", 8, 1) == "ab\nabcdefghijklmnop\ncd");
}

TEST(code_keeps_its_lines) {
  const std::string code = "```\naaa bbb ccc ddd eee\n```\n";
  CHECK(shown(code + "aaa bbb ccc", 10, 2) == code + "aaa bbb\nccc");
  CHECK(shown("    aaa bbb ccc ddd", 10, 2) == "    aaa bbb ccc ddd");
}

TEST(wide_characters_may_be_parted) {
  const std::string letter = "\xE6\x97\xA5";
  CHECK(shown(letter + letter + letter + letter, 7, 12) == letter + letter + letter + "\n" + letter);
}

TEST_MAIN()
