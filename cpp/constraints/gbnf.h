// Grammars in llama.cpp's notation (GBNF).
#pragma once

#include <string>

namespace specdec {

// The grammar in xgrammar's notation, which lacks GBNF's "." (any character) and alternatives with nothing in them.
// Throws ArgumentError for text that is empty, too long, not UTF-8, or nested too deeply.
std::string xgrammar_text_of(const std::string& gbnf);

// The text as a literal.
std::string gbnf_literal(const std::string& text);

}  // namespace specdec
