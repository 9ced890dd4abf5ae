#include "constraints/pattern_syntax.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/index.h"
#include "base/utf8.h"
#include "constraints/unicode_categories.h"

namespace specdec {
namespace {

using Kind = PatternNode::Kind;
constexpr char32_t first_surrogate = 0xD800, last_surrogate = 0xDFFF;
constexpr int max_depth = 64, max_repetitions = 1'000'000;

// The characters of a class by both ECMA-262 and Python's re, and by either.
struct Shorthand {
  CharacterSet both, either;
};

CharacterSet of_categories(const std::string& start) {
  CharacterSet set;
  for (std::size_t i = 0; i < unicode_categories.size(); ++i) {
    if (std::string(unicode_categories[i].value).compare(0, start.size(), start) != 0) continue;
    const bool is_last = i + 1 == unicode_categories.size();
    set.add(unicode_categories[i].first, is_last ? last_character : unicode_categories[i + 1].first - 1);
  }
  return set;
}

CharacterSet of_script(const std::string& script) {
  CharacterSet set;
  for (std::size_t i = 0; i + 1 < unicode_scripts.size(); ++i) {
    if (unicode_scripts[i].value == script) set.add(unicode_scripts[i].first, unicode_scripts[i + 1].first - 1);
  }
  return set;
}

CharacterSet sum(CharacterSet set, const CharacterSet& other) {
  set.add(other);
  return set;
}

Shorthand opposite(const Shorthand& shorthand) { return {shorthand.either.complement(), shorthand.both.complement()}; }

// \d, \w and \s.
const Shorthand& shorthand_of(char name) {
  static const Shorthand digits = {{{U'0', U'9'}}, of_categories("Nd")};
  static const Shorthand words = {{{U'0', U'9'}, {U'A', U'Z'}, {U'a', U'z'}, {U'_', U'_'}},
                                  sum(sum({{U'_', U'_'}}, of_categories("L")), of_categories("N"))};
  static const CharacterSet blanks = sum({{9, 13}}, of_categories("Z"));
  static const Shorthand spaces = {blanks, sum(blanks, {{0x1C, 0x1F}, {0x85, 0x85}, {0xFEFF, 0xFEFF}})};
  static const std::map<char, Shorthand> shorthands = {{'d', digits},          {'w', words},
                                                       {'s', spaces},          {'D', opposite(digits)},
                                                       {'W', opposite(words)}, {'S', opposite(spaces)}};
  return shorthands.at(name);
}

// ECMA-262's dot takes no line terminator; Python's takes all but "\n".
const CharacterSet& dot() {
  static const CharacterSet set = CharacterSet{{U'\n', U'\n'}, {U'\r', U'\r'}, {0x2028, 0x2029}}.complement();
  return set;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class PatternReader {
 public:
  explicit PatternReader(const std::string& text) : text_(text) {}

  PatternNode read() {
    PatternNode node = choice(0);
    if (at_ < text_.size()) invalid(at_, 1, "no group is open");
    return node;
  }

 private:
  // An atom of a class or an escape: one character, or a class with a name.
  struct Item {
    char32_t character = 0;
    std::optional<Shorthand> named;
  };

  [[noreturn]] void fail(std::size_t start, std::size_t size, const std::string& problem, bool is_valid) const {
    const std::string part = printable(text_.substr(start, size));
    std::size_t place = 1;
    for (std::size_t i = 0; i < start; ++i) place += (text_[i] & 0xC0) != 0x80 ? 1 : 0;
    throw PatternError(
        (part.empty() ? "the end" : "'" + part + "' at character " + std::to_string(place)) + ": " + problem, is_valid);
  }
  [[noreturn]] void invalid(std::size_t start, std::size_t size, const std::string& problem) const {
    fail(start, size, problem, false);
  }
  [[noreturn]] void unsupported(std::size_t start, std::size_t size, const std::string& what) const {
    fail(start, size, what + " cannot be enforced", true);
  }

  bool has(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool has(const char* part) const { return text_.compare(at_, std::strlen(part), part) == 0; }
  bool take(char c) {
    if (!has(c)) return false;
    ++at_;
    return true;
  }
  bool take(const char* part) {
    if (!has(part)) return false;
    at_ += std::strlen(part);
    return true;
  }
  char32_t character() {
    const char32_t value = utf8_character(text_, at_);
    at_ += utf8_length(text_[at_]);
    return value;
  }

  static PatternNode of(CharacterSet set) {
    PatternNode node;
    node.kind = Kind::characters;
    node.characters = std::move(set);
    return node;
  }
  static PatternNode anchor(Kind kind) {
    PatternNode node;
    node.kind = kind;
    return node;
  }

  PatternNode choice(int depth) {
    if (depth > max_depth)
      fail(at_, 1, "groups are nested more than " + std::to_string(max_depth) + " deep, which is too deep", true);
    PatternNode node;
    node.kind = Kind::choice;
    do {
      node.parts.push_back(sequence(depth));
    } while (take('|'));
    return node.parts.size() == 1 ? std::move(node.parts.front()) : node;
  }

  PatternNode sequence(int depth) {
    PatternNode node;
    while (at_ < text_.size() && !has('|') && !has(')')) {
      const std::size_t start = at_;
      if (take("(?#")) {  // a comment
        at_ = std::min(text_.find(')', at_), text_.size());
        if (!take(')')) invalid(start, 3, "the comment is not closed");
        continue;
      }
      PatternNode part = atom(depth);
      const bool is_anchor = part.kind == Kind::begin || part.kind == Kind::end;
      node.parts.push_back(counted(std::move(part), start, is_anchor && text_[start] != '('));
    }
    return node;
  }

  // A quantifier: least and most.
  std::optional<std::pair<int, int>> quantifier() {
    constexpr int no_limit = PatternNode::no_limit;
    if (take('*')) return {{0, no_limit}};
    if (take('+')) return {{1, no_limit}};
    if (take('?')) return {{0, 1}};
    const std::size_t start = at_;
    if (!take('{')) return std::nullopt;
    const std::optional<int> least = count();
    const bool has_comma = take(',');
    const std::optional<int> most = has_comma ? count() : least;
    if (!take('}') || (!least && !most)) {  // braces that are characters
      at_ = start;
      return std::nullopt;
    }
    if (most && *most < least.value_or(0)) invalid(start, at_ - start, "the larger count comes first");
    return {{least.value_or(0), most.value_or(no_limit)}};
  }
  std::optional<int> count() {
    if (at_ >= text_.size() || !is_digit(text_[at_])) return std::nullopt;
    int value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_)
      value = std::min(10 * value + (text_[at_] - '0'), max_repetitions);
    return value;
  }

  PatternNode counted(PatternNode part, std::size_t start, bool is_anchor) {
    const std::size_t place = at_;
    const auto counts = quantifier();
    if (!counts) return part;
    if (is_anchor) invalid(start, at_ - start, "nothing to repeat");
    if (has('+')) unsupported(place, at_ - place + 1, "a possessive count");
    take('?');  // lazy: the same texts
    const std::size_t next = at_;
    if (quantifier()) invalid(next, at_ - next, "a count follows a count");
    PatternNode node;
    node.kind = Kind::repeat;
    std::tie(node.least, node.most) = *counts;
    node.parts.push_back(std::move(part));
    return node;
  }

  PatternNode atom(int depth) {
    const std::size_t start = at_;
    switch (text_[at_]) {
      case '^':
        ++at_;
        return anchor(Kind::begin);
      case '$':
        ++at_;
        return anchor(Kind::end);
      case '.':
        ++at_;
        return of(dot());
      case '[':
        return of(bracket());
      case '(':
        return group(depth);
      case '\\':
        break;
      case '*':
      case '+':
      case '?':
        invalid(start, 1, "nothing to repeat");
      default:
        if (has('{') && quantifier()) invalid(start, at_ - start, "nothing to repeat");
        const char32_t c = character();
        return of({{c, c}});
    }
    if (take("\\A")) return anchor(Kind::begin);
    if (take("\\Z") || take("\\z")) return anchor(Kind::end);
    if (has("\\b") || has("\\B")) unsupported(start, 2, "a word boundary");
    if (has("\\k")) unsupported(start, 2, "a reference to a group");
    const Item item = escape(false);
    return of(item.named ? item.named->both : CharacterSet{{item.character, item.character}});
  }

  PatternNode group(int depth) {
    const std::size_t start = at_;
    ++at_;
    if (take("?:")) {
    } else if (has("?=") || has("?!")) {
      unsupported(start, 3, "a lookahead");
    } else if (has("?<=") || has("?<!")) {
      unsupported(start, 4, "a lookbehind");
    } else if (has("?P=")) {
      unsupported(start, 4, "a reference to a group");
    } else if (has("?(")) {
      unsupported(start, 3, "a condition");
    } else if (has("?>")) {
      unsupported(start, 3, "an atomic group");
    } else if (take("?<") || take("?P<")) {
      const std::size_t name = at_;
      at_ = std::min(text_.find('>', at_), text_.size());
      if (at_ == name || !take('>')) invalid(start, at_ - start, "the group has no name");
    } else if (has('?')) {
      const std::size_t end = text_.find_first_not_of("aiLmsuxAILMSUX-", at_ + 1);
      if (end != std::string::npos && end > at_ + 1 && (text_[end] == ')' || text_[end] == ':'))
        unsupported(start, end - start + 1, "a flag");
      invalid(start, 3, "no such group");
    }
    PatternNode inside = choice(depth + 1);
    if (!take(')')) invalid(start, 1, "the group is not closed");
    return inside;
  }

  // [...]; "]" is a character where Python has it as one: as the first, if another one follows.
  CharacterSet bracket() {
    const std::size_t start = at_;
    ++at_;
    const bool is_negated = take('^');
    if (has(']') && !is_closed_after(at_ + 1)) {  // ECMA-262's nothing and anything
      ++at_;
      return is_negated ? CharacterSet::all() : CharacterSet();
    }
    CharacterSet set;
    for (bool is_first = true; is_first || !has(']'); is_first = false) {
      if (at_ >= text_.size()) invalid(start, 1, "the class is not closed");
      const std::size_t item_start = at_;
      const Item first = item();
      const bool is_range = has('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (first.named) {
        set.add(is_negated ? first.named->either : first.named->both);
        continue;  // a "-" that follows is a character
      }
      if (!is_range) {
        set.add(first.character, first.character);
        continue;
      }
      ++at_;
      const Item last = item();
      const std::size_t size = at_ - item_start;
      if (last.named) invalid(item_start, size, "a class cannot end a range");
      if (last.character < first.character) invalid(item_start, size, "the range is backwards");
      set.add(first.character, last.character);
    }
    ++at_;
    return is_negated ? set.complement() : set;
  }

  bool is_closed_after(std::size_t at) const {
    for (; at < text_.size() && text_[at] != ']'; ++at) {
      if (text_[at] == '\\') ++at;
    }
    return at < text_.size();
  }

  Item item() {
    if (has('\\')) return escape(true);
    Item item;
    item.character = character();
    return item;
  }

  Item escape(bool in_class) {
    const std::size_t start = at_;
    ++at_;
    if (at_ >= text_.size()) invalid(start, 1, "nothing follows the backslash");
    const char name = text_[at_];
    if (std::strchr("dDwWsS", name) != nullptr && name != '\0') {
      ++at_;
      return {0, shorthand_of(name)};
    }
    if (name == 'p' || name == 'P') return {0, property(start)};
    if (is_digit(name)) return {octal(start, in_class), std::nullopt};
    static const std::map<char, char32_t> controls = {{'t', 9},  {'n', 10}, {'v', 11}, {'f', 12},
                                                      {'r', 13}, {'a', 7},  {'b', 8}};
    if (const auto found = controls.find(name); found != controls.end()) {
      ++at_;
      return {found->second, std::nullopt};
    }
    if (name == 'c') {
      const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
      if (!is_letter(letter)) invalid(start, 2, "a letter must follow");
      at_ += 2;
      return {static_cast<char32_t>(letter & 0x1F), std::nullopt};
    }
    if (name == 'x' || name == 'u' || name == 'U') return {hex(start, name), std::nullopt};
    if (is_letter(name)) invalid(start, 2, "no such escape");
    return {character(), std::nullopt};
  }

  // \0, \012, \101; other numbers refer to groups.
  char32_t octal(std::size_t start, bool in_class) {
    std::size_t end = at_;
    while (end < text_.size() && end < at_ + 3 && is_octal(text_[end])) ++end;
    const bool is_character = text_[at_] == '0' || in_class || end == at_ + 3;
    if (!is_character) {
      while (end < text_.size() && is_digit(text_[end])) ++end;
      unsupported(start, end - start, "a reference to a group");
    }
    if (end == at_) invalid(start, 2, "no such escape");
    char32_t value = 0;
    for (; at_ < end; ++at_) value = 8 * value + static_cast<char32_t>(text_[at_] - '0');
    if (value > 0377) invalid(start, end - start, "the number is above \\377");
    return value;
  }

  // \xHH, \uHHHH (also two surrogates), \u{H...}, \UHHHHHHHH.
  char32_t hex(std::size_t start, char name) {
    ++at_;
    if (name == 'u' && take('{')) {
      char32_t value = 0;
      const std::size_t first = at_;
      for (; at_ < text_.size() && hex_value(text_[at_]) >= 0; ++at_)
        value = std::min<char32_t>(16 * value + static_cast<char32_t>(hex_value(text_[at_])), last_character + 1);
      if (at_ == first || !take('}')) invalid(start, at_ - start, "must be \\u{...} with hex digits");
      return checked(value, start);
    }
    const char32_t value = digits(start, name == 'x' ? 2 : name == 'u' ? 4 : 8);
    const bool is_high = value >= first_surrogate && value < 0xDC00;
    if (!is_high || name != 'u' || !has("\\u")) return checked(value, start);
    at_ += 2;
    const char32_t low = digits(start, 4);
    if (low < 0xDC00 || low > last_surrogate) invalid(start, at_ - start, "is half of a surrogate pair");
    return 0x10000 + ((value - first_surrogate) << 10) + (low - 0xDC00);
  }
  char32_t digits(std::size_t start, int number) {
    char32_t value = 0;
    for (int i = 0; i < number; ++i, ++at_) {
      const int digit = at_ < text_.size() ? hex_value(text_[at_]) : -1;
      if (digit < 0) invalid(start, at_ - start, "must have " + std::to_string(number) + " hex digits");
      value = 16 * value + static_cast<char32_t>(digit);
    }
    return value;
  }
  char32_t checked(char32_t value, std::size_t start) const {
    const bool is_surrogate = value >= first_surrogate && value <= last_surrogate;
    if (value > last_character || is_surrogate) invalid(start, at_ - start, "is not a character");
    return value;
  }

  // \p{Lu}, \P{L}, \pN, \p{Script=Greek}.
  Shorthand property(std::size_t start) {
    const bool is_negated = text_[at_] == 'P';
    ++at_;
    std::string name;
    if (take('{')) {
      const std::size_t end = text_.find('}', at_);
      if (end == std::string::npos) invalid(start, 3, "the property is not closed");
      name = text_.substr(at_, end - at_);
      at_ = end + 1;
    } else if (at_ < text_.size() && is_letter(text_[at_])) {
      name = text_.substr(at_++, 1);
    }
    const std::size_t size = at_ - start;
    static const std::map<std::string, std::string> long_names = {{"Letter", "L"},
                                                                  {"Uppercase_Letter", "Lu"},
                                                                  {"Lowercase_Letter", "Ll"},
                                                                  {"Mark", "M"},
                                                                  {"Number", "N"},
                                                                  {"Decimal_Number", "Nd"},
                                                                  {"Punctuation", "P"},
                                                                  {"Symbol", "S"},
                                                                  {"Separator", "Z"},
                                                                  {"Space_Separator", "Zs"},
                                                                  {"Other", "C"},
                                                                  {"Control", "Cc"},
                                                                  {"Other_Letter", "Lo"}};
    std::string value = name.substr(name.find('=') + 1);  // all of it if there is none
    const std::string key = name.substr(0, name.size() - value.size());
    Shorthand found;
    if (key.empty() || key == "gc=" || key == "General_Category=") {
      if (value == "Any") found = {CharacterSet::all(), CharacterSet::all()};
      else if (value == "ASCII") found = {{{0, 0x7F}}, {{0, 0x7F}}};
      else if (const auto entry = long_names.find(value); entry != long_names.end()) value = entry->second;
      const bool is_category = !value.empty() && value.size() <= 2 && std::strchr("LMNPSZC", value[0]) != nullptr;
      if (is_category) found.both = found.either = of_categories(value);
    }
    const bool is_script = key == "Script=" || key == "sc=" || (key.empty() && found.both.ranges().empty());
    if (is_script) {
      found.both = of_script(value);
      found.either = CharacterSet::all();  // of the script's other characters nothing is known
    }
    if (found.both.ranges().empty()) unsupported(start, size, "this property");
    if (is_script && is_negated) unsupported(start, size, "a script that is negated");
    return is_negated ? opposite(found) : found;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

CharacterSet::CharacterSet(std::initializer_list<Range> ranges) : ranges_(ranges) {}

CharacterSet CharacterSet::all() { return {{0, last_character}}; }

void CharacterSet::add(const CharacterSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
}

std::vector<CharacterSet::Range> CharacterSet::ranges() const {
  std::vector<Range> sorted, out;
  for (const Range& range : ranges_) {  // without surrogates
    if (range.first < first_surrogate)
      sorted.push_back({range.first, std::min<char32_t>(range.last, first_surrogate - 1)});
    if (range.last > last_surrogate)
      sorted.push_back({std::max<char32_t>(range.first, last_surrogate + 1), range.last});
  }
  std::sort(sorted.begin(), sorted.end());
  for (const Range& range : sorted) {
    const bool is_joined = !out.empty() && range.first <= out.back().last + 1;
    if (is_joined) out.back().last = std::max(out.back().last, range.last);
    else out.push_back(range);
  }
  return out;
}

CharacterSet CharacterSet::complement() const {
  CharacterSet out;
  char32_t next = 0;
  for (const Range& range : ranges()) {
    if (range.first > next) out.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= last_character) out.add(next, last_character);
  return out;
}

PatternNode parse_pattern(const std::string& text) {
  if (valid_utf8(text) != text) throw PatternError("the text is not UTF-8", false);
  return PatternReader(text).read();
}

}  // namespace specdec
