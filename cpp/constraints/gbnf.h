// Grammars in llama.cpp's notation (GBNF).
#pragma once

#include <string>

namespace specdec {

enum class GrammarSource {
  client,  // within the limits of limits.h
  ours,    // made of what a client sent, which has been checked: larger limits
};

// Translates the grammar to xgrammar's notation. Throws ArgumentError that names the line and the character of what is
// wrong: syntax, a rule that is missing, defined twice, or never ends; and a grammar beyond the limits.
std::string xgrammar_text_of(const std::string& gbnf, GrammarSource source = GrammarSource::client);

// The text as a GBNF literal.
std::string gbnf_literal(const std::string& text);

}  // namespace specdec
