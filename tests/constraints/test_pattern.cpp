// Regular expressions: what they mean, what is an error, and the same text as bytes and inside a JSON string.
#include <string>
#include <vector>

#include "base/index.h"
#include "check.h"
#include "constraints/pattern.h"

namespace {

using namespace specdec;
using Match = Pattern::Match;
using Text = Pattern::Text;

bool whole(const std::string& regex, const std::string& text) { return Pattern(regex, Match::whole).matches(text); }
bool found(const std::string& regex, const std::string& text) { return Pattern(regex, Match::search).matches(text); }

bool accepts(const ByteAutomaton& automaton, const std::string& bytes) {
  int state = 0;
  for (const char byte : bytes) {
    state = automaton.next(state, static_cast<unsigned char>(byte));
    if (state < 0) return false;
  }
  return automaton.states[idx(state)].accepts;
}

std::string problem(const std::string& regex) {
  try {
    const Pattern pattern(regex, Match::whole);
    return "none";
  } catch (const PatternError& error) {
    return (error.is_valid() ? "unsupported: " : "invalid: ") + std::string(error.what());
  }
}

}  // namespace

TEST(anchors_hold_wherever_they_stand) {
  CHECK(whole("(^ab$)", "ab") && whole("^a$|^b$", "b") && !whole("^a$|^b$", "ab") && whole("\\Aa\\Z", "a"));
  CHECK(found("(^ab$)", "ab") && !found("(^ab$)", "xab") && found("^a|b$", "ax") && found("^a|b$", "xb"));
  CHECK(!found("^a|b$", "xa") && found("b", "abc") && found("", "abc") && found("a|^b", "ba") && !found("a^b", "ab"));
  CHECK(Pattern("a^b", Match::whole).is_empty() && Pattern("$a", Match::search).is_empty() && whole("(^|a)b", "b"));
  CHECK(whole("^$", "") && found("^$", "") && !found("^$", "a") && whole("(a|$)*", "aa"));
}

TEST(classes_are_read_as_python_reads_them) {
  CHECK(whole("[\\^a]", "^") && whole("[\\^a]", "a") && !whole("[\\^a]", "b"));
  CHECK(whole("[]a]", "]") && !whole("[^]a]", "]") && whole("[^]a]", "b") && whole("[a-]", "-") &&
        whole("[\\w-]+", "a-b"));
  CHECK(whole("[^]", "\n") && !whole("[a-z]", "A") && whole("[\\x41-\\u0043]", "B") && whole("[\\]\\-a]+", "]-a"));
  CHECK(!whole(".", "\n") && whole(".", "\u20ac") && !whole("[^\\d]", "5") && whole("[^\\D]", "5"));
  CHECK(whole("\\p{Lu}\\p{L}+", "\u00c4rger") && !whole("\\P{L}", "a") && whole("\\p{Script=Greek}", "\u03b1"));
}

TEST(harmless_escapes_are_read) {
  CHECK(whole("\\:\\ \\/\\-\\\"", ": /-\"") && whole("\\u0041\\x42\\u{43}\\t", "ABC\t") &&
        whole("\\ud83d\\ude00", "\U0001f600"));
  CHECK(whole("\\101\\0?", "A") && whole("\\cA", "\x01") && whole("a{", "a{") && whole("a{,2}", "aa"));
}

TEST(errors_name_the_place) {
  CHECK(problem("ab(?=c)") == "unsupported: '(?=' at character 3: a lookahead cannot be enforced");
  CHECK(problem("\u00e4\\b") == "unsupported: '\\b' at character 2: a word boundary cannot be enforced");
  CHECK(problem("(a)\\1") == "unsupported: '\\1' at character 4: a reference to a group cannot be enforced");
  CHECK(problem("(?i)a") == "unsupported: '(?i)' at character 1: a flag cannot be enforced");
  CHECK(problem("a*+") == "unsupported: '*+' at character 2: a possessive count cannot be enforced");
  CHECK(problem("(a") == "invalid: '(' at character 1: the group is not closed");
  CHECK(problem("a)") == "invalid: ')' at character 2: no group is open");
  CHECK(problem("[b-a]") == "invalid: 'b-a' at character 2: the range is backwards");
  CHECK(problem("a**") == "invalid: '*' at character 3: a count follows a count");
  CHECK(problem("a{3,2}") == "invalid: '{3,2}' at character 2: the larger count comes first");
  CHECK(problem("\\q") == "invalid: '\\q' at character 1: no such escape");
  CHECK(problem("(a{200}){200}{9}") == "invalid: '{9}' at character 14: a count follows a count");
  CHECK(problem("((a{200}){200}){9}") == "unsupported: needs too many states; use smaller counts");
  CHECK(problem(std::string(100, '(') + std::string(100, ')')).find("nested more than 64 deep") != std::string::npos);
}

TEST(a_json_string_writes_each_text_in_one_way) {
  const ByteAutomaton any = Pattern::all().bytes(Text::json);
  CHECK(accepts(any, "a\\\"\\\\\\n\\u001f/\u20ac\x7f") && !accepts(any, "\n") && !accepts(any, "\"") &&
        !accepts(any, "\\u000a"));
  CHECK(!accepts(any, "\\u0041") && !accepts(any, "\\/") && !accepts(any, "\xff") && !accepts(any, "\xc3"));
  const ByteAutomaton line = Pattern("^[^a-z]{1,3}$", Match::search).bytes(Text::json);
  CHECK(accepts(line, "\\n\\n\\n") && !accepts(line, "\\n\\n\\n\\n") && !accepts(line, "\n") && accepts(line, "\\\""));
}

TEST(sets_of_texts_are_combined) {
  const Pattern words("^[a-z]+$", Match::search);
  const Pattern three = words & Pattern::of_length(2, 3);
  CHECK(three.matches("ab") && three.matches("abc") && !three.matches("a") && !three.matches("abcd") &&
        !three.matches("A1"));
  const Pattern others = three - Pattern::literal("abc") - Pattern("^x", Match::search);
  CHECK(others.matches("abd") && !others.matches("abc") && !others.matches("xy") && others.matches("yx"));
  CHECK((words & Pattern::literal("A")).is_empty() && (Pattern::all() - Pattern::all()).is_empty());
  CHECK(Pattern::of_length(3, 3).num_states() == 4 && Pattern("a{3,}|a{2}|aaa", Match::whole).num_states() == 3);
  CHECK(Pattern::of_length(0, 4000).num_states() == 4001);
}

TEST_MAIN()
