#include "constraints/gbnf.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/argument.h"
#include "base/index.h"
#include "base/utf8.h"
#include "constraints/limits.h"
#include "constraints/pattern_syntax.h"

namespace specdec {
namespace {

constexpr int max_our_depth = 256;
constexpr int max_count = 100'000;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// A part of a rule in xgrammar's notation.
struct Part {
  std::string text;
  std::int64_t places = 0;  // classes of characters, counted as often as they are repeated
  bool is_single = false;   // a count may follow without parentheses
};

class GbnfReader {
 public:
  GbnfReader(const std::string& text, GrammarSource source, const std::set<std::string>& elsewhere)
      : text_(text), elsewhere_(elsewhere), is_ours_(source == GrammarSource::ours) {}

  std::string translated() {
    for (skip(); at_ < text_.size(); skip()) read_rule();
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) throw ArgumentError("grammar", "has no rule named root");
    for (const Rule& rule : rules_) {
      if (rule.body.empty() && !is_elsewhere(rule)) fail(rule.first_use, rule.name.size(), "no rule has this name");
    }
    check_ends();
    std::string out;
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (is_elsewhere(rules_[rule])) continue;
      out += name_of(static_cast<int>(rule)) + " ::= " + rules_[rule].body + "\n";
    }
    return out;
  }

 private:
  struct Rule {
    std::string name, body;
    std::size_t first_use = 0;
    std::vector<std::vector<int>> needs;  // by alternative: the rules, and choices, that must end for it to end
  };

  [[noreturn]] void fail(std::size_t start, std::size_t size, const std::string& problem) const {
    std::size_t line = 1, place = 1;
    for (std::size_t i = 0; i < std::min(start, text_.size()); ++i) {
      if (text_[i] == '\n') ++line, place = 1;
      else if ((text_[i] & 0xC0) != 0x80) ++place;
    }
    const std::string part = start < text_.size() ? "'" + printable(text_.substr(start, size)) + "'" : "the end";
    throw ArgumentError("grammar", "is not valid: line " + std::to_string(line) + ", character " +
                                       std::to_string(place) + ": " + part + ": " + problem);
  }

  bool is_elsewhere(const Rule& rule) const { return rule.body.empty() && elsewhere_.count(rule.name) != 0; }
  std::string name_of(int rule) const {
    const std::string& name = rules_[idx(rule)].name;
    return name == "root" || elsewhere_.count(name) != 0 ? name : "r" + std::to_string(rule);
  }

  bool has(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char c) {
    if (!has(c)) return false;
    ++at_;
    return true;
  }
  // Blanks, line ends and comments.
  void skip() {
    while (at_ < text_.size()) {
      if (has('#')) at_ = std::min(text_.find('\n', at_), text_.size());
      else if (std::strchr(" \t\r\n", text_[at_]) != nullptr) ++at_;
      else return;
    }
  }
  // The size of the name at hand; 0: none.
  std::size_t name_size() const {
    std::size_t end = at_;
    while (end < text_.size() && is_name_character(text_[end])) ++end;
    return end - at_;
  }
  bool is_definition() const {
    const std::size_t size = name_size();
    const std::size_t next = size > 0 ? text_.find_first_not_of(" \t", at_ + size) : std::string::npos;
    return next != std::string::npos && text_.compare(next, 3, "::=") == 0;
  }

  int rule_named(const std::string& name, std::size_t place) {
    const auto [found, is_new] = numbers_.try_emplace(name, static_cast<int>(rules_.size()));
    if (is_new) rules_.push_back({name, "", place, {}});
    return found->second;
  }

  void read_rule() {
    const std::size_t start = at_, size = name_size();
    if (!is_definition()) fail(start, std::max<std::size_t>(size, 1), "a rule must begin here: name ::= ...");
    const std::string name = text_.substr(start, size);
    const int rule = rule_named(name, start);
    if (!rules_[idx(rule)].body.empty()) fail(start, size, "this rule is defined twice");
    at_ = text_.find("::=", at_) + 3;
    std::vector<std::vector<int>> needs;
    const Part body = alternatives(0, needs);
    places_ += body.places;
    check_places(places_);
    if (at_ < text_.size() && !is_definition()) {
      fail(at_, 1, has(')') ? "no parenthesis is open" : "not a literal, a class, a group or the name of a rule");
    }
    rules_[idx(rule)].body = body.text;
    rules_[idx(rule)].needs = std::move(needs);
  }

  void check_places(std::int64_t places) const {
    if (places <= (is_ours_ ? max_our_places : max_counted_places)) return;
    if (!is_ours_) fail_too_many_places("grammar");
    throw ArgumentError("grammar", "made of this request has more than " + std::to_string(max_our_places) +
                                       " classes of characters, counted as often as they are repeated");
  }

  Part alternatives(int depth, std::vector<std::vector<int>>& needs) {
    const int max_depth = is_ours_ ? max_our_depth : max_constraint_depth;
    if (depth >= max_depth)
      throw ArgumentError("grammar", "has parentheses nested " + std::to_string(max_depth) + " levels deep or more");
    Part out;
    do {
      needs.emplace_back();
      const Part part = sequence(depth, needs.back());
      out.text += (out.text.empty() ? "" : " | ") + part.text;
      out.places += part.places;
      skip();
    } while (take('|'));
    return out;
  }

  Part sequence(int depth, std::vector<int>& needs) {
    Part out;
    for (skip(); at_ < text_.size() && !is_definition(); skip()) {
      std::vector<int> of_item;
      std::optional<Part> part = item(depth, of_item);
      if (!part) break;
      bool can_be_absent = false;
      *part = counted(std::move(*part), can_be_absent);
      if (!can_be_absent) needs.insert(needs.end(), of_item.begin(), of_item.end());
      out.text += (out.text.empty() ? "" : " ") + part->text;
      out.places += part->places;
    }
    if (out.text.empty()) out.text = "\"\"";
    return out;
  }

  // nullopt: none begins here. needs: the rules that must end for it to end.
  std::optional<Part> item(int depth, std::vector<int>& needs) {
    const std::size_t start = at_;
    if (has('"')) return literal();
    if (has('[')) return bracket();
    if (take('.')) return characters(CharacterSet::all());
    if (take('(')) {
      if (has('=')) fail(start, 2, "lookahead is not supported");
      std::vector<std::vector<int>> inside;
      Part part = alternatives(depth + 1, inside);
      if (!take(')')) fail(start, 1, "the parenthesis is not closed");
      if (inside.size() == 1) {
        needs = inside[0];
      } else if (std::none_of(inside.begin(), inside.end(), [](const auto& one) { return one.empty(); })) {
        needs.push_back(choice_of(std::move(inside)));
      }
      part.text = "(" + part.text + ")";
      part.is_single = true;
      return part;
    }
    if (has('<') || has('!')) fail(start, 1, "tokens are not supported");
    const std::size_t size = name_size();
    if (size == 0) return std::nullopt;
    const int rule = rule_named(text_.substr(at_, size), start);
    at_ += size;
    needs.push_back(rule);
    return Part{name_of(rule), 0, true};
  }

  // A number below 0 that stands for one of several lists of rules.
  int choice_of(std::vector<std::vector<int>> inside) {
    choices_.push_back(std::move(inside));
    return -static_cast<int>(choices_.size());
  }

  Part counted(Part part, bool& can_be_absent) {
    for (skip(); at_ < text_.size(); skip()) {
      const std::size_t start = at_;
      const char c = text_[at_];
      if (std::strchr("*+?{", c) == nullptr) break;
      ++at_;
      std::string count(1, c);
      int most = 1, least = c == '+' ? 1 : 0;
      std::optional<int> high;
      if (c == '{') {
        const std::optional<int> low = number();
        const bool has_comma = take(',');
        high = has_comma ? number() : low;
        if ((!low && !high) || !take('}')) fail(start, at_ - start + 1, "a count is {n}, {n,} or {n,m}");
        least = low.value_or(0);
        if (high && *high < least) fail(start, at_ - start, "the larger count comes first");
        most = std::max({1, least, high.value_or(1)});
        count = "{" + std::to_string(least) + "," + (high ? std::to_string(*high) : "") + "}";
        part.places = std::max<std::int64_t>(part.places, 1) * most;
        check_places(part.places);
      }
      can_be_absent = can_be_absent || least == 0;
      if (high == 0) {
        part = Part{"\"\"", 0, true};
        continue;
      }
      part.text = (part.is_single ? part.text : "(" + part.text + ")") + count;
      part.is_single = false;
    }
    return part;
  }
  std::optional<int> number() {
    while (has(' ')) ++at_;
    if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9') return std::nullopt;
    int value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      value = std::min(10 * value + (text_[at_] - '0'), max_count);
    while (has(' ')) ++at_;
    return value;
  }

  static std::string escaped(char32_t c) {
    char text[16];
    std::snprintf(text, sizeof text, "\\U%08X", static_cast<unsigned>(c));
    return text;
  }

  Part literal() {
    const std::size_t start = at_++;
    Part part{"\"", 0, true};
    while (!has('"')) {
      if (at_ >= text_.size()) fail(start, 1, "the literal is not closed");
      const bool is_plain = text_[at_] >= ' ' && text_[at_] <= '~' && text_[at_] != '\\';
      if (is_plain) part.text += text_[at_++];
      else part.text += escaped(character());
    }
    ++at_;
    part.text += '"';
    return part;
  }

  Part bracket() {
    const std::size_t start = at_++;
    const bool is_negated = take('^');
    CharacterSet set;
    bool is_empty = true;
    for (; !has(']'); is_empty = false) {
      if (at_ >= text_.size()) fail(start, 1, "the class is not closed");
      const std::size_t item = at_;
      const char32_t first = character(true);
      char32_t last = first;
      if (has('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = character(true);
        if (last < first) fail(item, at_ - item, "the range is backwards");
      }
      set.add(first, last);
    }
    ++at_;
    if (is_empty && !is_negated) fail(start, 2, "a class without characters matches nothing");
    return characters(is_negated ? set.complement() : set);
  }

  // xgrammar has no null character in classes.
  Part characters(const CharacterSet& set) const {
    Part part{"[", 1, true};
    for (const CharacterSet::Range& range : set.ranges()) {
      if (range.last == 0) continue;
      const char32_t first = std::max<char32_t>(range.first, 1);
      part.text += escaped(first);
      if (range.last > first) part.text += "-" + escaped(range.last);
    }
    if (part.text == "[") fail(at_, 1, "the class before this matches nothing");
    part.text += "]";
    return part;
  }

  // in_class: a null character is allowed, since characters() leaves it out.
  char32_t character(bool in_class = false) {
    const std::size_t start = at_;
    if (!take('\\')) {
      const char32_t c = utf8_character(text_, at_);
      at_ += utf8_length(text_[at_]);
      return c;
    }
    if (at_ >= text_.size()) fail(start, 1, "nothing follows the backslash");
    const char name = text_[at_];
    static const std::map<char, char32_t> controls = {{'t', 9},  {'n', 10}, {'v', 11}, {'f', 12},
                                                      {'r', 13}, {'a', 7},  {'b', 8},  {'e', 27}};
    if (const auto found = controls.find(name); found != controls.end()) {
      ++at_;
      return found->second;
    }
    const int size = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : 0;
    if (size == 0) {
      const bool is_punctuation = name > ' ' && name <= '~' && !is_name_character(name);
      if (!is_punctuation && name != '-') fail(start, 2, "invalid escape");
      ++at_;
      return static_cast<char32_t>(name);
    }
    ++at_;
    std::uint32_t value = 0;
    for (int i = 0; i < size; ++i, ++at_) {
      const char digit = at_ < text_.size() ? text_[at_] : ' ';
      if (std::strchr("0123456789abcdefABCDEF", digit) == nullptr || digit == '\0')
        fail(start, at_ - start, "invalid escape: it needs " + std::to_string(size) + " hex digits");
      value = 16 * value + static_cast<std::uint32_t>(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
    }
    if (value == 0 && !in_class) fail(start, at_ - start, "a null character is not supported");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      fail(start, at_ - start, "invalid escape: not a character");
    return value;
  }

  // Every rule must match some text.
  void check_ends() const {
    std::vector<bool> ends(rules_.size()), choice_ends(choices_.size());
    for (std::size_t i = 0; i < rules_.size(); ++i) ends[i] = is_elsewhere(rules_[i]);
    const auto is_done = [&](const std::vector<std::vector<int>>& needs) {
      return std::any_of(needs.begin(), needs.end(), [&](const std::vector<int>& one) {
        return std::all_of(one.begin(), one.end(),
                           [&](int need) { return need >= 0 ? ends[idx(need)] : choice_ends[idx(-1 - need)]; });
      });
    };
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (std::size_t i = 0; i < choices_.size(); ++i) {
        if (!choice_ends[i] && is_done(choices_[i])) choice_ends[i] = is_changed = true;
      }
      for (std::size_t i = 0; i < rules_.size(); ++i) {
        if (!ends[i] && is_done(rules_[i].needs)) ends[i] = is_changed = true;
      }
    }
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (!ends[i]) fail(rules_[i].first_use, rules_[i].name.size(), "this rule needs itself, so no text matches it");
    }
  }

  const std::string& text_;
  const std::set<std::string>& elsewhere_;
  const bool is_ours_;
  std::size_t at_ = 0;
  std::vector<Rule> rules_;
  std::map<std::string, int> numbers_;  // of rules, by name
  std::vector<std::vector<std::vector<int>>> choices_;
  std::int64_t places_ = 0;
};

}  // namespace

std::string gbnf_literal(const std::string& text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') literal += '\\';
    if (c == '\n') literal += "\\n";
    else if (c == '\r') literal += "\\r";
    else if (c == '\t') literal += "\\t";
    else literal += c;
  }
  return literal + "\"";
}

std::string xgrammar_text_of(const std::string& gbnf, GrammarSource source, const std::set<std::string>& elsewhere) {
  check_constraint_text("grammar", gbnf, source == GrammarSource::ours ? max_our_bytes : max_constraint_bytes);
  return GbnfReader(gbnf, source, elsewhere).translated();
}

}  // namespace specdec
