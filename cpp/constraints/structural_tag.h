// Structural tags, vLLM's and SGLang's form for text with parts that obey schemas, such as tool calls between marks.
#pragma once

#include <string>
#include <vector>

#include "base/token.h"

namespace specdec {

struct SupportedStructuralTag {
  std::string text;                   // in xgrammar's form, which the older one of "structures" and "triggers" becomes
  std::vector<std::string> patterns;  // of its schemas, see SupportedSchema
  std::vector<std::string> texts;     // that the output may have as they stand; parts of them may be control tokens
  std::vector<Token> tokens;          // that it names by their ids
  std::vector<std::string> ignored;   // of its schemas, see SupportedSchema
};

// Its schemas, grammars and regular expressions have the limits that they have alone. Throws ArgumentError that names
// the place of what is not valid as a JSON pointer; if strict, also for keywords of schemas that are not enforced.
SupportedStructuralTag supported_structural_tag(const std::string& text, bool is_strict = true);

}  // namespace specdec
