// Grammars in llama.cpp's notation (GBNF).
#pragma once

#include <set>
#include <string>

#include "constraints/limits.h"

namespace specdec {

// Translates the grammar to xgrammar's notation. elsewhere: names of rules that are not defined in it. Throws
// ArgumentError that names the line and the character of what is wrong: syntax, a rule that is missing, defined twice,
// or never ends; and a grammar beyond the limits.
std::string xgrammar_text_of(const std::string& gbnf, GrammarSource source = GrammarSource::client,
                             const std::set<std::string>& elsewhere = {});

// The text as a GBNF literal.
std::string gbnf_literal(const std::string& text);

}  // namespace specdec
