// Inputs of constraints that are sound, to be edited, and what is done with a constraint that results.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "constraints/constraint_compiler.h"

namespace specdec::constraints {

enum Kind { grammar, json_schema, regex, structural_tag, num_kinds };

inline const std::vector<std::string>& sound_inputs(Kind kind) {
  static const std::vector<std::string> texts[num_kinds] = {
      {"root ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" root \")\"\n", "root ::= \"a\"{2,5} . [^a-c\\]] # x\n",
       "root ::= a | b\na ::= root \"x\" | \"\"\nb ::= a? b* \"\\u1234\\x41\"",
       "root ::= \"(\" root \")\" | [^\\x41-Z\\U0001F600]{2,} (\"a\" |)",
       "root ::= ws \"{\" (ws a-b (\",\" ws a-b)*)? \"}\"\nws ::= [ \\t\\n]*\na-b ::= \"\\\"\" . \"\\\"\""},
      {R"({"type":"object","properties":{"a":{"type":"string","maxLength":5},"b":{"$ref":"#"}},"required":["a"]})",
       R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})",
       R"({"oneOf":[{"type":"string","pattern":"^(a|b){2,3}$"},{"const":1.5e300}]})",
       R"({"type":"array","items":{"$ref":"#/$defs/x"},"$defs":{"x":{"enum":[1,"a",{"b":[null]}]}},
          "minItems":2,"maxItems":4})",
       R"({"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615,"multipleOf":7})",
       R"({"type":"number","minimum":1e-300,"exclusiveMaximum":1e300})"},
      {"^(a|b)*[^c]{2,4}\\d\\w+?$", "(?:x|y){3}|[\\u00e4-\\u1234]", "\\x41\\cA\\0[\\]\\-a]", "a||b|()", "((ab)*c)*b",
       "(?<n>a)\\p{L}"},
      {R"({"structures":[{"begin":"<f>","schema":{"type":"integer"},"end":"</f>"}],"triggers":["<f"]})",
       R"({"format":{"type":"or","elements":[{"type":"const_string","value":"ab"},
          {"type":"regex","pattern":"a{2,3}"}]}})",
       R"({"format":{"type":"tag","begin":"<a>","content":{"type":"any_text"},"end":["</a>","</b>"]}})",
       R"({"format":{"type":"repeat","min":1,"max":3,"content":{"type":"grammar","grammar":"root ::= [a-c]"}}})",
       R"({"format":{"type":"token_triggered_tags","trigger_tokens":[3],"tags":[{"begin":{"type":"token","token":3},
          "content":{"type":"any_tokens"},"end":{"type":"token","token":4}}]}})",
       R"({"format":{"type":"tags_with_separator","tags":[{"begin":"a","content":{"type":"star",
          "content":{"type":"const_string","value":"x"}},"end":"b"}],"separator":","}})"}};
  return texts[kind];
}

// For a vocabulary with a token for every byte but 0, and the end.
inline const ConstraintCompiler& byte_compiler() {
  static const ConstraintCompiler compiler = [] {
    std::vector<std::string> pieces;
    for (int byte = 1; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    pieces.emplace_back();
    return ConstraintCompiler(pieces, {255});
  }();
  return compiler;
}

inline std::unique_ptr<sampling::Constraint> compiled(Kind kind, const std::string& text) {
  const ConstraintCompiler& compiler = byte_compiler();
  return kind == grammar          ? compiler.grammar(text)
         : kind == json_schema    ? compiler.json_schema(text)
         : kind == structural_tag ? compiler.structural_tag(text)
                                  : compiler.regex(text);
}

// Allowed tokens that below(n), a number less than n, chooses, and back to the start now and then.
template <class Below>
void walk(sampling::Constraint& constraint, Below below) {
  for (int step = 0; step < 30; ++step) {
    sampling::TokenMask mask;
    mask.fill(constraint.vocabulary_size(), [&](std::uint32_t* words) { constraint.write_mask(words); });
    const auto first = static_cast<Token>(below(256));
    Token token = first;
    while (!mask.contains(token) && (token = (token + 1) % 256) != first) {
    }
    CHECK(constraint.advance(token) == mask.contains(token));
    if (!mask.contains(token)) return;
    if (below(6) == 0) constraint.truncate(0);
  }
}

}  // namespace specdec::constraints
