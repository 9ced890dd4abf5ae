// Structural tags: vLLM's and SGLang's form for text with parts that obey schemas, such as tool calls between marks.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/token.h"

namespace specdec {

struct SupportedStructuralTag {
  std::string text;                  // in xgrammar's current form; the older one with "structures" and "triggers" is
                                     // converted
  std::vector<std::string> texts;    // literal texts that the output may have; parts of them may be control tokens
  std::vector<Token> tokens;         // tokens that it names by id
  std::vector<std::string> ignored;  // of its schemas
  bool is_older = false;             // it was converted
};

// The limits on schemas, grammars and regular expressions apply to those in tags, too. Throws ArgumentError that names
// the place of what is invalid as a JSON pointer; if strict, also for keywords of schemas that are not enforced.
SupportedStructuralTag supported_structural_tag(const std::string& text, bool is_strict = true,
                                                Token num_tokens = std::numeric_limits<Token>::max());

// Throws ArgumentError that names the innermost format with this problem. problem_of: that of a tag by itself.
[[noreturn]] void fail_at_place(const SupportedStructuralTag& tag, const std::string& problem,
                                const std::function<std::string(const std::string& tag)>& problem_of);

}  // namespace specdec
