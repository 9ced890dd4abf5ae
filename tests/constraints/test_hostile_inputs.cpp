// Grammars, schemas and regular expressions with random edits: an error or a constraint, whose masks are what it then accepts; never a
// crash.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "constraints/constraint_compiler.h"
#include "sampling/uniforms.h"

namespace {

using namespace specdec;

enum Kind { grammar, json_schema, regex };
const std::vector<std::string> sound[3] = {
    {"root ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" root \")\"\n", "root ::= \"a\"{2,5} . [^a-c\\]] # x\n",
     "root ::= a | b\na ::= root \"x\" | \"\"\nb ::= a? b* \"\\u1234\\x41\"", "root ::= (=\"a\") [a-z]",
     "root ::= TagDispatch((\"a\", b), loop_after_dispatch=false)\nb ::= \"c\""},
    {R"({"type":"object","properties":{"a":{"type":"string","maxLength":5},"b":{"$ref":"#"}},"required":["a"]})",
     R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", R"({"oneOf":[{"type":"string","pattern":"^(a|b){2,3}$"},{"const":1.5e300}]})",
     R"({"type":"array","items":{"$ref":"#/$defs/x"},"$defs":{"x":{"enum":[1,"a",{"b":[null]}]}},"minItems":2,"maxItems":4})",
     R"({"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615,"multipleOf":7})",
     R"({"type":"number","minimum":1e-300,"exclusiveMaximum":1e300})"},
    {"^(a|b)*[^c]{2,4}\\d\\w+?$", "(?:x|y){3}|[\\u00e4-\\u1234]", "\\x41\\cA\\0[\\]\\-a]", "a||b|()", "((ab)*c)*b", "(?<n>a)\\p{L}"}};

class Random {
 public:
  explicit Random(std::uint64_t seed) : uniforms_(seed, 0) {}
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(uniforms_.uniform(++count_, 0, sampling::Purpose::next) * static_cast<double>(n));
  }

 private:
  sampling::PhiloxUniforms uniforms_;
  std::int64_t count_ = 0;
};

std::string edited(const std::vector<std::string>& texts, Random& random) {
  const std::string characters = "{}[]()\"\\|*+?.^$,:=-#/ \n0129aexnu_<>%&~";
  std::string text = texts[random.below(texts.size())];
  for (std::size_t edits = random.below(6); edits > 0; --edits) {
    const std::size_t at = random.below(text.size() + 1);
    const std::string& other = texts[random.below(texts.size())];
    switch (random.below(3)) {
      case 0:
        text.insert(at, 1, characters[random.below(characters.size())]);
        break;
      case 1:
        text.erase(at, 1 + random.below(4));
        break;
      default:
        text.insert(at, other.substr(random.below(other.size()), random.below(12)));
    }
  }
  return text;
}

// Random allowed tokens, and back to the start now and then.
void walk(sampling::Constraint& constraint, Random& random) {
  for (int step = 0, length = 0; step < 30; ++step, ++length) {
    sampling::TokenMask mask;
    mask.fill(constraint.vocabulary_size(), [&](std::uint32_t* words) { constraint.write_mask(words); });
    const auto first = static_cast<Token>(random.below(256));
    Token token = first;
    while (!mask.contains(token) && (token = (token + 1) % 256) != first) {
    }
    CHECK(constraint.advance(token) == mask.contains(token));
    if (!mask.contains(token)) return;
    if (random.below(6) == 0) constraint.truncate(length = 0), --length;
  }
}

}  // namespace

TEST(edited_inputs_are_errors_or_constraints) {
  std::vector<std::string> pieces;
  for (int byte = 1; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  pieces.emplace_back();  // the end
  const ConstraintCompiler compiler(pieces, {255});
  int accepted[3] = {}, rejected[3] = {};
  Random random(1);
  for (int i = 0; i < 6000; ++i) {
    const int kind = i % 3;
    const std::string text = edited(sound[kind], random);
    try {
      const auto constraint = kind == grammar       ? compiler.grammar(text)
                              : kind == json_schema ? compiler.json_schema(text)
                                                    : compiler.regex(text);
      ++accepted[kind];
      walk(*constraint, random);
    } catch (const std::invalid_argument&) {
      ++rejected[kind];
    }
  }
  for (const int kind : {grammar, json_schema, regex}) CHECK(accepted[kind] > 100 && rejected[kind] > 200);
}

TEST_MAIN()
