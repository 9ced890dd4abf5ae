// Tells tests/constraints/compare_patterns.py what patterns match. Lines in, fields separated by tabs, texts in hex:
// how (whole, search or json), the pattern, and texts; for json each text is followed by the inside of its JSON string.
// Lines out: "valid" or "invalid" and the error, or "ok" and a digit for each text.
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/index.h"
#include "constraints/pattern.h"

namespace {

using namespace specdec;

std::string from_hex(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return out;
}

bool accepts(const ByteAutomaton& automaton, const std::string& bytes) {
  int state = 0;
  for (const char byte : bytes) {
    state = automaton.next(state, static_cast<unsigned char>(byte));
    if (state < 0) return false;
  }
  return automaton.states[idx(state)].accepts;
}

std::string answer(const std::vector<std::string>& fields) {
  const bool is_json = fields[0] == "json";
  try {
    const Pattern pattern(from_hex(fields[1]), fields[0] == "whole" ? Pattern::Match::whole : Pattern::Match::search);
    const ByteAutomaton automaton = pattern.bytes(is_json ? Pattern::Text::json : Pattern::Text::plain);
    std::string out = "ok ";
    for (std::size_t i = 2; i < fields.size(); i += is_json ? 2 : 1) {
      const bool matches = pattern.matches(from_hex(fields[i]));
      const bool matches_bytes = accepts(automaton, from_hex(fields[is_json ? i + 1 : i]));
      out += matches == matches_bytes ? (matches ? '1' : '0') : 'x';
    }
    return out;
  } catch (const PatternError& error) {
    return (error.is_valid() ? "valid " : "invalid ") + std::string(error.what());
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == '\t') fields.emplace_back();
      else fields.back() += c;
    }
    std::cout << answer(fields) << "\n";
  }
}
