// Editing of one and several lines, and its drawing.
#include <string>
#include <vector>

#include "check.h"
#include "cli/terminal/edit_buffer.h"

using namespace specdec::cli;

namespace {

// The text with a "|" at the cursor.
std::string shown(const EditBuffer& buffer) { return std::string(buffer.text()).insert(buffer.cursor(), "|"); }

EditBuffer edited(const std::string& text) {  // "|" marks the cursor
  EditBuffer buffer;
  buffer.insert(text.substr(0, text.find('|')));
  const std::size_t cursor = buffer.cursor();
  buffer.insert(text.substr(text.find('|') + 1));
  while (buffer.cursor() > cursor) buffer.left();
  return buffer;
}

template <class Edit>
std::string after(const std::string& text, Edit edit) {
  EditBuffer buffer = edited(text);
  edit(buffer);
  return shown(buffer);
}

}  // namespace

TEST(characters) {
  CHECK(after("ab|c", [](EditBuffer& b) { b.left(); }) == "a|bc");
  CHECK(after("|abc", [](EditBuffer& b) { b.left(); }) == "|abc");
  CHECK(after("ab|\xC3\xBC"
              "c",
              [](EditBuffer& b) { b.right(); }) == "ab\xC3\xBC|c");
  CHECK(after("abc|", [](EditBuffer& b) { b.right(); }) == "abc|");
  CHECK(after("a\xC3\xBC|c", [](EditBuffer& b) { b.backspace(); }) == "a|c");
  CHECK(after("a|\xF0\x9F\x98\x80"
              "c",
              [](EditBuffer& b) { b.erase(); }) == "a|c");
  CHECK(after("|", [](EditBuffer& b) { b.backspace(), b.erase(); }) == "|");
  // e with a combining acute accent is one.
  CHECK(after("xe\xCC\x81|", [](EditBuffer& b) { b.backspace(); }) == "x|");
  CHECK(after("x|e\xCC\x81y", [](EditBuffer& b) { b.right(); }) == "xe\xCC\x81|y");
}

TEST(words_and_lines) {
  CHECK(after("one two  |", [](EditBuffer& b) { b.word_left(); }) == "one |two  ");
  CHECK(after("|  one two", [](EditBuffer& b) { b.word_right(); }) == "  one| two");
  CHECK(after("one two| x", [](EditBuffer& b) { b.erase_word(); }) == "one | x");
  CHECK(after("a\nbc|d\ne", [](EditBuffer& b) { b.home(); }) == "a\n|bcd\ne");
  CHECK(after("a\nb|cd\ne", [](EditBuffer& b) { b.end(); }) == "a\nbcd|\ne");
  CHECK(after("a\nbc|d\ne", [](EditBuffer& b) { b.erase_to_start(); }) == "a\n|d\ne");
  CHECK(after("a\nb|cd\ne", [](EditBuffer& b) { b.erase_to_end(); }) == "a\nb|\ne");
}

TEST(up_and_down_keep_the_column_where_they_can) {
  CHECK(after("abcd\nef\nghi|j", [](EditBuffer& b) { CHECK(b.up()); }) == "abcd\nef|\nghij");
  CHECK(after("ab|cd\nef\nghij", [](EditBuffer& b) { CHECK(b.down()); }) == "abcd\nef|\nghij");
  CHECK(after("a|b", [](EditBuffer& b) { CHECK(!b.up() && !b.down()); }) == "a|b");
  CHECK(after("\n|", [](EditBuffer& b) { CHECK(b.up() && !b.up()); }) == "|\n");
}

TEST(rows_of_a_terminal) {
  const auto rows = [](const std::string& text, int width) {
    const EditLayout drawn = layout(edited(text), "> ", width);
    std::string result;
    for (const std::string& row : drawn.rows) result += row + "$";
    return result + std::to_string(drawn.cursor_row) + "," + std::to_string(drawn.cursor_cell);
  };
  CHECK(rows("abc|", 10) == "> abc$0,5");
  CHECK(rows("ab|cdef", 6) == "> abcd$ef$0,4");
  CHECK(rows("abcd|ef", 6) == "> abcd$ef$1,0");
  CHECK(rows("abcd|", 6) == "> abcd$$1,0");  // the cursor needs a cell
  CHECK(rows("ab\nc|d", 10) == "> ab$  cd$1,3");
  CHECK(rows("abcd\n|e", 6) == "> abcd$$  e$2,2");
  CHECK(rows("\xE4\xBD\xA0|\xE5\xA5\xBD", 5) == "> \xE4\xBD\xA0$\xE5\xA5\xBD$1,0");  // two cells each
  CHECK(rows("a\tb|", 20) == "> a     b$0,9");
}

TEST_MAIN()
