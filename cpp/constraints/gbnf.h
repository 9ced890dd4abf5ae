// Grammars in llama.cpp's notation (GBNF).
#pragma once

#include <string>

namespace specdec {

// Translates the grammar to xgrammar's notation, which lacks GBNF's "." (any character) and empty alternatives. Throws
// ArgumentError for text that is empty, too long, not UTF-8, or nested too deeply.
std::string xgrammar_text_of(const std::string& gbnf);

// The text as a GBNF literal.
std::string gbnf_literal(const std::string& text);

}  // namespace specdec
