// Regular expressions as automata: what a pattern means is decided here, before xgrammar sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "constraints/pattern_syntax.h"

namespace specdec {

// A deterministic automaton over bytes. State 0 is the start.
struct ByteAutomaton {
  struct Edge {
    unsigned char first, last;
    int target;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges;  // in order, without overlap
  };
  std::vector<State> states;

  // The state after a byte; -1: none.
  int next(int state, unsigned char byte) const;
};

// A set of texts of Unicode characters, as the smallest deterministic automaton that tells them. Operations throw
// PatternError if the result would need too many states.
class Pattern {
 public:
  enum class Match {
    whole,   // Python's fullmatch
    search,  // JSON Schema's "pattern": a match anywhere in the text
  };
  enum class Text {
    plain,
    json,  // inside a JSON string, as Python's json.dumps(ensure_ascii=False) writes it: each text in just one way
  };

  // Throws PatternError.
  Pattern(const std::string& regex, Match match);

  static Pattern all();
  static Pattern literal(const std::string& text);  // UTF-8
  // Texts of this many characters.
  static Pattern of_length(std::uint64_t least, std::optional<std::uint64_t> most);
  // Decimal integers, without leading zeros, that divisor * 10^zeros divides.
  static Pattern multiples(int divisor, int zeros);

  Pattern operator&(const Pattern& other) const;
  Pattern operator-(const Pattern& other) const;  // texts of this that the other does not have

  bool is_empty() const;  // no text matches
  bool matches(const std::string& text) const;
  int num_states() const { return static_cast<int>(states_.size()); }

  ByteAutomaton bytes(Text text) const;
  // An expression for our xgrammar (patch 0004), which must be all of a rule: "name ::= " + rule_body(text). Must not
  // be empty.
  std::string rule_body(Text text) const;

 private:
  struct Edge {
    char32_t first, last;
    int target;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges;  // in order; what has none leads nowhere
  };

  Pattern() = default;
  template <class Accepts>
  Pattern product(const Pattern& other, Accepts accepts, bool needs_other) const;
  void minimize();

  std::vector<State> states_;  // the first is the start; all but the first lead to a text
};

}  // namespace specdec
