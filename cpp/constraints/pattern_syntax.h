// Reads regular expressions into trees. The syntax is that of ECMA-262, as JSON Schema asks for, with what Python's re
// adds. Where the two disagree on a class (\d, \w, \s, \D, ., ...), it holds only the characters that are in both, so
// that a text that matches here matches there.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace specdec {

// "'(?=' at character 3: lookahead cannot be enforced".
class PatternError : public std::runtime_error {
 public:
  PatternError(const std::string& problem, bool is_valid) : std::runtime_error(problem), is_valid_(is_valid) {}
  // Whether the pattern means something, which is not supported here or too large. A caller that is not strict may
  // ignore it.
  bool is_valid() const noexcept { return is_valid_; }

 private:
  bool is_valid_;
};

constexpr char32_t last_character = 0x10FFFF;

// A set of Unicode characters. Surrogates are not characters.
class CharacterSet {
 public:
  struct Range {
    char32_t first, last;
    bool operator<(const Range& other) const { return std::tie(first, last) < std::tie(other.first, other.last); }
  };

  CharacterSet() = default;
  CharacterSet(std::initializer_list<Range> ranges);
  static CharacterSet all();

  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add(const CharacterSet& other);
  CharacterSet complement() const;
  // In order, without overlap or contact, without surrogates.
  std::vector<Range> ranges() const;

 private:
  std::vector<Range> ranges_;
};

struct PatternNode {
  enum class Kind { characters, sequence, choice, repeat, begin, end };
  static constexpr int no_limit = -1;

  Kind kind = Kind::sequence;
  CharacterSet characters;         // Kind::characters
  std::vector<PatternNode> parts;  // sequence (empty: the empty text), choice; repeat: one
  int least = 0, most = no_limit;  // repeat
};

// Throws PatternError.
PatternNode parse_pattern(const std::string& text);

}  // namespace specdec
