// Grammars, schemas and regular expressions over a small vocabulary: what they allow, and what is an error.
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "constraints/constraint_compiler.h"
#include "constraints/schema_grammar.h"

namespace {

using namespace specdec;

// A token for every byte of ASCII but the control characters, some longer ones, a control token (no bytes) and two
// ends.
struct Toy {
  std::vector<std::string> pieces;
  Token control, end, other_end;
  Toy() {
    for (char c = ' '; c < 127; ++c) pieces.emplace_back(1, c);
    for (const char* piece : {"ab", "true", "{\"", "\": ", "\xc3", "\xa4", "\n", "\t"}) pieces.emplace_back(piece);
    control = static_cast<Token>(pieces.size());
    pieces.emplace_back();
    end = control + 1, other_end = control + 2;
    pieces.resize(pieces.size() + 2);
  }
};

const Toy& toy_vocabulary() {
  static const Toy toy;
  return toy;
}
const ConstraintCompiler& compiler() {
  static const ConstraintCompiler made(toy_vocabulary().pieces, {toy_vocabulary().end, toy_vocabulary().other_end});
  return made;
}

sampling::TokenMask mask_of(sampling::Constraint& constraint) {
  sampling::TokenMask mask;
  mask.fill(constraint.vocabulary_size(), [&](std::uint32_t* words) { constraint.write_mask(words); });
  return mask;
}

// Reads the text byte by byte. Whether that is allowed by every mask, and the output may end there.
bool matches(sampling::Constraint& constraint, const std::string& text) {
  constraint.truncate(0);
  int length = 0;
  for (const char c : text) {
    Token token = -1;
    for (std::size_t i = 0; i < toy_vocabulary().pieces.size(); ++i) {
      if (toy_vocabulary().pieces[i] == std::string(1, c)) token = static_cast<Token>(i);
    }
    const bool allowed = mask_of(constraint).contains(token);
    CHECK(constraint.advance(token) == allowed);
    if (!allowed) return false;
    ++length;
  }
  const sampling::TokenMask mask = mask_of(constraint);
  CHECK(!mask.contains(toy_vocabulary().control));
  CHECK(mask.contains(toy_vocabulary().end) == mask.contains(toy_vocabulary().other_end));
  return mask.contains(toy_vocabulary().end);
}

bool schema_takes(const std::string& schema, const std::string& text) {
  return matches(*compiler().json_schema(schema), text);
}
bool regex_takes(const std::string& regex, const std::string& text) { return matches(*compiler().regex(regex), text); }
bool grammar_takes(const std::string& grammar, const std::string& text) {
  return matches(*compiler().grammar(grammar), text);
}
bool tag_takes(const std::string& tag, const std::string& text) {
  return matches(*compiler().structural_tag(tag), text);
}

}  // namespace

// Every text of up to five letters, for parts that repeat or may be absent inside of one another.
TEST(patterns_take_what_regular_expressions_do) {
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; texts[i].size() < 5; ++i) {
    for (const char* letter : {"a", "b", "c"}) texts.push_back(texts[i] + letter);
  }
  const char* const counts[] = {"", "?", "*", "+", "{1,2}", "{0,2}", "{2,}"};
  for (const std::string first : counts) {
    for (const std::string second : counts) {
      for (const std::string both : counts) {
        const std::string pattern = "^(a" + first + "b" + second + ")" + both + "(b|c)$";
        const std::regex expected(pattern);
        const auto regex = compiler().regex(pattern);
        const auto schema = compiler().json_schema(R"({"type": "string", "pattern": ")" + pattern + "\"}");
        for (const std::string& text : texts) {
          const bool is_taken = std::regex_match(text, expected);
          if (matches(*regex, text) != is_taken) throw std::runtime_error("regex " + pattern + ": " + text);
          if (matches(*schema, '"' + text + '"') != is_taken)
            throw std::runtime_error("schema " + pattern + ": " + text);
        }
      }
    }
  }
}

TEST(a_regex_matches_all_of_the_output) {
  CHECK(regex_takes("a[0-9]+b?", "a12b") && regex_takes("a[0-9]+b?", "a1") && !regex_takes("a[0-9]+b?", "a") &&
        !regex_takes("a+", "ab"));
  CHECK(regex_takes("^(yes|no)$", "no") && !regex_takes("^(yes|no)$", "nope"));
  CHECK(regex_takes("x{2,3}", "xxx") && !regex_takes("x{2,3}", "x") && !regex_takes("x{2,3}", "xxxx"));
}

TEST(escapes_have_as_many_digits_as_they_should) {
  CHECK(regex_takes("\\x41B", "AB") && grammar_takes("root ::= \"\\x41B\"", "AB"));
  CHECK(regex_takes("[\\u00e4C]", "C") && regex_takes("[\\u00e4C]", "\u00e4"));
  CHECK(regex_takes("\\x3018446744073709551615", "018446744073709551615"));
  CHECK(grammar_takes("root ::= \"\\U000000e4\" [\\u00e4C]", "\u00e4C"));
  CHECK_THROWS(compiler().grammar("root ::= \"\\UFFFFFFFF\""), std::invalid_argument, "nvalid escape");
  CHECK_THROWS(compiler().grammar("root ::= \"\\x4\""), std::invalid_argument, "nvalid escape");
  CHECK_THROWS(compiler().regex("\\x4\u0130"), std::invalid_argument,
               "2 hex digits");  // U+0130 ends in the code of '0'
}

TEST(a_grammar_in_the_notation_of_llama_cpp) {
  const char* const sum =
      "root ::= term (\"+\" term)*  # a comment with \"quotes\n\nterm ::= [0-9]+ | \"(\" root \")\"\n";
  CHECK(grammar_takes(sum, "1+(2+33)") && !grammar_takes(sum, "1+") && !grammar_takes(sum, "(1"));
  CHECK(grammar_takes("root ::= \"a.\" . \"]\"", "a.x]") && !grammar_takes("root ::= \"a.\" . \"]\"", "aax]"));
  CHECK(grammar_takes("root ::= some-rule\nsome-rule ::= [^a-c\\]]{2}", "xy"));
}

TEST(a_schema_is_json_in_one_line) {
  const char* const person =
      R"({"type": "object", "title": "Person", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
    "minimum": 0, "maximum": 150}, "kind": {"enum": ["a", 1, null]}}, "required": ["name", "age"],
    "additionalProperties": false})";
  CHECK(schema_takes(person, R"({"name": "x", "age": 12})"));
  CHECK(schema_takes(person, R"({"name": "\"\\", "age": 0, "kind": null})"));
  CHECK(!schema_takes(person, R"({"name": "x"})") && !schema_takes(person, R"({"name": "x", "age": 151})"));
  CHECK(!schema_takes(person, R"({"name": "x", "age": 1, "kind": "b"})") &&
        !schema_takes(person, R"({"name": 1, "age": 1})"));
  CHECK(!schema_takes(person, "{\"name\": \"x\", \"age\": 1, \"other\": 1}"));
  CHECK(!schema_takes(person, "{ \"name\": \"x\", \"age\": 12}") &&
        !schema_takes(person, "{\"name\":\"x\", \"age\": 12}"));
}

TEST(schemas_of_any_value) {
  for (const char* any : {"{}", R"({"type": "object"})"}) {
    CHECK(schema_takes(any, "{}") && schema_takes(any, R"({"a": [1, {"b": null}]})") && !schema_takes(any, "1") &&
          !schema_takes(any, "[]"));
  }
  CHECK(schema_takes("true", "[1, \"a\"]") && schema_takes(R"({"type": "array"})", "[true, {}]"));
}

TEST(schemas_with_references) {
  const char* const tree =
      R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [
    {"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"]}}})";
  CHECK(schema_takes(tree, R"({"next": {"next": null}})") && !schema_takes(tree, R"({"next": {}})"));
}

TEST(lengths_of_strings) {
  const auto takes = [](const std::string& lengths, std::size_t length) {
    return schema_takes(R"({"type": "string", )" + lengths + "}", "\"" + std::string(length, 'a') + "\"");
  };
  CHECK(takes(R"("maxLength": 2)", 0) && takes(R"("maxLength": 2)", 2) && !takes(R"("maxLength": 2)", 3));
  CHECK(takes(R"("maxLength": 0)", 0) && !takes(R"("maxLength": 0)", 1));
  CHECK(!takes(R"("minLength": 2)", 1) && takes(R"("minLength": 2)", 2) && takes(R"("minLength": 2)", 300));
  CHECK(!takes(R"("minLength": 2, "maxLength": 3)", 1) && takes(R"("minLength": 2, "maxLength": 3)", 3));
  CHECK(!takes(R"("minLength": 130, "maxLength": 140)", 129) && takes(R"("minLength": 130, "maxLength": 140)", 130));
  CHECK(takes(R"("minLength": 130, "maxLength": 140)", 140) && !takes(R"("minLength": 130, "maxLength": 140)", 141));
}

// Characters that a JSON string must escape do not occur in it.
TEST(bounded_strings_are_json) {
  for (const char* schema : {R"({"type": "string", "maxLength": 5})", R"({"type": "string", "minLength": 1})",
                             R"({"type": "string", "maxLength": 200})", R"({"type": "string", "pattern": "^.{0,5}$"})",
                             R"({"type": "string", "pattern": "^[^a]+$"})"}) {
    CHECK(schema_takes(schema, "\"xy\""));
    for (const char* text : {"\"x\ty\"", "\"x\ny\"", "\"x\"y\"", "\"x\\\""}) CHECK(!schema_takes(schema, text));
  }
}

TEST(lengths_counts_and_patterns) {
  CHECK(schema_takes(R"({"type": "string", "maxLength": 2})", "\"ab\"") &&
        !schema_takes(R"({"type": "string", "maxLength": 2})", "\"abc\""));
  CHECK(schema_takes(R"({"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2})", "[null, null]"));
  CHECK(!schema_takes(R"({"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2})", "[]"));
  CHECK(schema_takes(R"({"type": "string", "pattern": "^[a-c]+$"})", "\"abc\"") &&
        !schema_takes(R"({"type": "string", "pattern": "^[a-c]+$"})", "\"d\""));
  CHECK(schema_takes(R"({"type": ["integer", "null"], "minimum": 3})", "null") &&
        !schema_takes(R"({"type": ["integer", "null"], "minimum": 3})", "2"));
}

TEST(a_constraint_goes_back_and_ends) {
  const auto constraint = compiler().regex("ab|xyz");
  const auto token_of = [](char c) { return static_cast<Token>(c - ' '); };
  CHECK(constraint->advance(token_of('a')) && constraint->advance(token_of('b')) &&
        !constraint->advance(token_of('c')));
  CHECK(mask_of(*constraint).contains(toy_vocabulary().end) && !mask_of(*constraint).contains(token_of('b')));
  CHECK(constraint->advance(toy_vocabulary().end) && mask_of(*constraint).empty() &&
        !constraint->advance(toy_vocabulary().end));
  constraint->truncate(1);
  CHECK(mask_of(*constraint).only_token() == token_of('b'));
  constraint->truncate(0);
  CHECK(constraint->advance(token_of('x')) && mask_of(*constraint).only_token() == token_of('y'));
  const Token ab = 127 - ' ';
  constraint->truncate(0);
  CHECK(constraint->advance(ab) && mask_of(*constraint).contains(toy_vocabulary().end));
}

// Nothing that is not enforced is accepted.

TEST(keywords_that_are_not_supported_are_named_with_their_place) {
  const auto rejects = [](const std::string& schema, const std::string& text) {
    try {
      compiler().json_schema(schema);
    } catch (const std::invalid_argument& error) {
      if (std::string(error.what()).find(text) == std::string::npos)
        check::fail(__FILE__, __LINE__, schema + ": " + error.what());
      return;
    }
    check::fail(__FILE__, __LINE__, "accepted " + schema);
  };
  rejects(R"({"type": "object", "properties": {"a/b": {"type": "array", "uniqueItems": true}}})",
          "/properties/a~1b/uniqueItems is not supported");
  rejects(R"({"not": {}})", "/not is not supported");
  rejects(R"({"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^a+$"}})",
          "/minProperties is not supported above 1 with these names");
  rejects(R"({"type": "number", "multipleOf": 0.5})", "/multipleOf");
  rejects(R"({"type": "string", "format": 3})", "/format must be a string");
  rejects(R"({"type": "string", "nullable": 1})", "/nullable must be true or false");
  rejects(R"({"type": "string", "pattern": "^[a-z]*$", "maxLength": 300})",
          "/maxLength is not supported together with");
  rejects(R"({"type": "string", "pattern": "(?=a)b"})", "ookahead");
  rejects(R"({"type": "string", "minLength": 3, "maxLength": 2})", "allows no value");
  rejects(R"({"type": "string", "format": "date", "minLength": 20})", "the schema allows no value");
  rejects(R"({"type": "string", "if": {}, "then": {}})", "/if");
  rejects(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "oneOf");
  rejects(R"({"enum": ["a"], "type": "integer"})", "allows no value");
  rejects(R"({"type": "object", "required": ["a"], "additionalProperties": false})", "requires \"a\"");
  rejects(R"({"type": "object", "properties": {"a": false}, "required": ["a"]})",
          "requires \"a\", which is not allowed");
  rejects(R"({"type": "object", "properties": {"a": {"minimum": 2, "maximum": 1}}, "required": ["a"]})",
          "/properties/a allows no value");
  rejects(R"({"$ref": "http://x"})", "references are local");
  rejects(R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})",
          "refers to itself");
  rejects(R"({"$ref": "#"})", "refers to itself");
  rejects(R"({"$ref": "#/nowhere"})", "points nowhere");
  rejects(R"({"$ref": "#/default", "default": {"type": "string", "not": {}}})", "/default/not is not supported");
  rejects(R"({"type": "strin"})", "/type is \"strin\"");
  rejects(R"([])", "is not a schema");
  std::string properties;
  for (int i = 0; i < 600; ++i) properties += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + "\":{}";
  rejects(R"({"properties":{)" + properties + "}}", "exceeds the limit of 500 schemas");
  rejects("{", "is not JSON");
  rejects(" ", "json_schema is empty");
  rejects(R"({"type": "string", "minLength": 100000})", "/minLength is more than 512");
  rejects(R"({"type": "string", "maxLength": -1})", "/maxLength must be a whole number");
  rejects(std::string(200000, ' ') + "{}", "bytes");
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += R"({"type":"array","items":)";
  rejects(deep + "true" + std::string(60, '}'), "levels deep");
  rejects(std::string(30000, '['), "nested too deeply");
}

TEST(keywords_that_exclude_nothing_are_taken) {
  for (const char* keyword : {R"("format": "path")", R"("format": "password", "minLength": 1)",
                              R"("format": "binary", "x-order": {"any": [1]})",
                              R"("contentMediaType": "text/plain", "example": "a")", R"("nullable": false)"}) {
    const std::string schema = R"({"type": "string", )" + std::string(keyword) + "}";
    CHECK(schema_takes(schema, R"("abc")") && !schema_takes(schema, "null") && !schema_takes(schema, "3"));
  }
  CHECK(!schema_takes(R"({"type": "string", "format": "uri", "minLength": 2})", R"("a")"));  // the length is enforced
  const std::string nullable =
      R"({"type": "object", "properties": {"a": {"type": "integer", "nullable": true}}, "required": ["a"]})";
  CHECK(schema_takes(nullable, R"({"a": null})") && schema_takes(nullable, R"({"a": 3})") &&
        !schema_takes(nullable, R"({"a": "x"})"));
  const std::string pet =
      R"({"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "discriminator": {"propertyName": "kind"},
      "$defs": {
      "cat": {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"], "minProperties": 1},
      "dog": {"type": "object", "properties": {"kind": {"const": "dog"}}, "required": ["kind"], "maxProperties": 1,
      "propertyNames": {}}}})";
  CHECK(schema_takes(pet, R"({"kind": "cat"})") && schema_takes(pet, R"({"kind": "dog"})") &&
        !schema_takes(pet, R"({"kind": "cow"})"));
  CHECK(schema_takes(R"({"type": "array", "items": {"type": "integer"}, "maxItems": 1, "uniqueItems": true})", "[3]"));
  // Not told apart: the values overlap, or the property may be missing.
  const auto union_of = [](const std::string& values, const std::string& required) {
    const auto one = [&](const std::string& kind) {
      return R"({"type": "object", "properties": {"kind": )" + kind + R"(}, "required": [)" + required + "]}";
    };
    return R"({"oneOf": [)" + one(R"({"enum": ["a", "b"]})") + ", " + one(values) + "]}";
  };
  CHECK(schema_takes(union_of(R"({"enum": ["c", "d"]})", R"("kind")"), R"({"kind": "d"})"));
  CHECK_THROWS(compiler().json_schema(union_of(R"({"enum": ["b", "c"]})", R"("kind")")), std::invalid_argument,
               "oneOf");
  CHECK_THROWS(compiler().json_schema(union_of(R"({"const": "c"})", "")), std::invalid_argument, "oneOf");
}

TEST(formats) {
  const auto takes = [](const char* format, const std::string& text) {
    return schema_takes(R"({"type": "string", "format": ")" + std::string(format) + "\"}", '"' + text + '"');
  };
  for (const char* date : {"2024-02-29", "2023-02-28", "1999-12-31", "0001-01-01"}) CHECK(takes("date", date));
  for (const char* date : {"2023-02-29", "2023-04-31", "2023-13-01", "0000-01-01", "1900-02-29", "2023-1-1"})
    CHECK(!takes("date", date));
  CHECK(takes("time", "23:59:59Z") && takes("time", "00:00:00.5+01:30"));
  CHECK(!takes("time", "24:00:00Z") && !takes("time", "23:59:60Z") && !takes("time", "12:00:00"));
  CHECK(takes("date-time", "2024-02-29T01:02:03Z") && !takes("date-time", "2024-02-29"));
  CHECK(takes("duration", "P3D") && takes("duration", "P3DT4H5S") && takes("duration", "PT5M"));
  CHECK(!takes("duration", "P") && !takes("duration", "PT") && !takes("duration", "P3DT"));
  CHECK(takes("uuid", "123e4567-e89b-12d3-a456-426614174000") && !takes("uuid", "123e4567e89b12d3a456426614174000"));
  CHECK(takes("uuid4", "123e4567-e89b-42d3-a456-426614174000") &&
        !takes("uuid4", "123e4567-e89b-12d3-a456-426614174000"));
  CHECK(takes("email", "a.b@example.org") && !takes("email", "a@b") && !takes("email", "a..b@example.org"));
  CHECK(takes("uri", "mailto:a@b.c") && takes("uri", "https://a.b/c?d=e#f") && !takes("uri", "abc") &&
        !takes("uri", "a: b"));
  const std::string web = R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})";
  CHECK(schema_takes(web, R"("https://example.org:80/a/b")") && schema_takes(web, R"("http://localhost")"));
  CHECK(!schema_takes(web, R"("mailto:a@b.c")") && !schema_takes(web, R"("https://1.2.3")"));
}

TEST(long_strings_end) {
  const auto takes = [](int least, std::size_t length) {
    const std::string schema = R"({"type": "object", "properties": {"a": {"type": "string", "minLength": )" +
                               std::to_string(least) + R"(, "maxLength": 40}, "b": {"type": "string"}}})";
    return schema_takes(schema,
                        R"({"a": ")" + std::string(length, 'x') + R"(", "b": ")" + std::string(99, 'x') + "\"}");
  };
  CHECK(takes(0, 0) && takes(0, 40) && !takes(0, 41) && takes(35, 40) && takes(35, 35) && !takes(35, 34));
  const std::string lists = R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string",
      "maxLength": 40}}}})";
  const std::string full = '"' + std::string(40, 'x') + '"', longer = '"' + std::string(41, 'x') + '"';
  CHECK(schema_takes(lists, R"({"a": [)" + full + ", " + full + "]}"));
  CHECK(!schema_takes(lists, R"({"a": [)" + full + ", " + longer + "]}"));
  const std::string any = R"({"type": "array", "items": {"type": "string", "maxLength": 40}})";
  CHECK(schema_takes(any, "[" + full + "]") && !schema_takes(any, "[" + longer + "]"));
  const std::string escaped = R"(\n\u00e9\"\\)";  // four characters
  CHECK(schema_takes(any, "[\"" + std::string(36, 'x') + escaped + "\"]"));
  CHECK(!schema_takes(any, "[\"" + std::string(37, 'x') + escaped + "\"]"));
}

TEST(numbers_end) {
  const std::string many(16, '1');
  for (const char* type : {"integer", "number"}) {
    const std::string schema = R"({"type": ")" + std::string(type) + "\"}";
    CHECK(schema_takes(schema, many) && schema_takes(schema, "-" + many) && !schema_takes(schema, many + "1"));
  }
  CHECK(schema_takes(R"({"type": "number"})", "0." + many) &&
        !schema_takes(R"({"type": "number"})", "0." + many + "1"));
  CHECK(schema_takes(R"({"type": "number"})", "1e-12") && !schema_takes(R"({"type": "number"})", "1e123"));
  CHECK(schema_takes(R"({"type": "string"})", '"' + many + many + '"'));
  CHECK(schema_takes(R"({"type": "array", "items": {"type": "integer"}})", "[" + many + ", " + many + "]"));
  CHECK(schema_takes(R"({"const": 1234567890123456789})", "1234567890123456789"));
  CHECK(schema_takes(R"({"type": "integer", "minimum": 100000000000000000})", "123456789012345678"));
}

TEST(what_a_schema_that_is_not_strict_leaves_out) {
  SchemaStyle loose;
  loose.is_strict = false;
  const SchemaGrammar schema = schema_grammar(
      R"({"type": "object", "properties": {"a/b": {"type": "array", "uniqueItems": true}}, "minProperties": 1,
      "not": {}})",
      loose);
  CHECK(std::set<std::string>(schema.ignored.begin(), schema.ignored.end()) ==
        std::set<std::string>({"/not", "/properties/a~1b/uniqueItems"}));
  CHECK(schema_grammar(R"({"type": "array", "uniqueItems": false})", SchemaStyle()).ignored.empty());
}

TEST(items_that_differ) {
  const auto takes = [](const std::string& items, const std::string& text) {
    return schema_takes(R"({"type": "array", "uniqueItems": true, "items": )" + items + "}", text);
  };
  const char* const some = R"({"enum": ["a", "ab", 1, null, "a/b", true]})";
  CHECK(takes(some, "[]") && takes(some, R"(["ab", "a", "a/b", true, null, 1])") && takes(some, R"(["a", "ab"])"));
  CHECK(!takes(some, R"(["a", "a"])") && !takes(some, "[1, null, 1]") && !takes(some, R"(["a/b", "a/b"])"));
  CHECK(takes(R"({"type": "boolean"})", "[false, true]") && !takes(R"({"type": "boolean"})", "[false, true, true]"));
  const char* const digits = R"({"type": "integer", "minimum": 0, "exclusiveMaximum": 11})";
  CHECK(takes(digits, "[1, 10, 0]") && !takes(digits, "[1, 10, 1]") && !takes(digits, "[10, 10]"));
  const char* const strings = R"({"type": "string"})";
  CHECK(takes(strings, R"(["", "a", "aa", "aaa", "b"])") && !takes(strings, R"(["a", "b", "a"])"));
  CHECK(!takes(strings, R"(["a", "\u0061"])") && !takes(strings, R"(["\u0061b", "ab"])") &&
        takes(strings, R"(["a", "\u0062"])"));
  CHECK(!takes(strings, R"(["", ""])") && !takes(strings, R"(["\n", "\u000a"])") && takes(strings, R"(["\"", "\\"])"));
  const char* const integers = R"({"type": "integer"})";
  CHECK(takes(integers, "[0, 1, 10, -1, 12, 2]") && !takes(integers, "[0, 0]") && !takes(integers, "[-12, 3, -12]"));
  const std::string most(16, '7');
  CHECK(takes(integers, "[" + most + ", 77, -" + most + "]") && !takes(integers, "[" + most + ", " + most + "]"));
  const char* const object = R"({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "array",
      "uniqueItems": true, "items": {"$ref": "#/$defs/one"}}]}, "b": {"type": "array", "items": {"enum": ["x"]}}},
      "$defs": {"one": {"enum": ["x", "y"]}}})";
  CHECK(schema_takes(object, R"({"a": ["y", "x"], "b": ["x", "x"]})") && !schema_takes(object, R"({"a": ["x", "x"]})"));
}

// A call's text may look like the schema's and go on in another way, which stays allowed.
TEST(items_that_differ_next_to_a_call) {
  const char* const schema = R"({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true, "items":
      {"type": "integer"}}}, "required": ["a"], "additionalProperties": false})";
  for (const std::string text :
       {R"({"a": [1{x, 1: "a]]}})", R"({"a": [["b", 1], ["b", 1]]})", R"({"a": [1"1", 1]}}}}]]], 1)"}) {
    std::string literal;
    for (const char c : text) literal += c == '"' ? "\\\"" : std::string(1, c);
    const ConstraintCompiler::Call call = {"root ::= \"" + literal + "\"", ""};
    CHECK(matches(*compiler().json_schema(schema, true, call), text));
  }
}

// After every allowed beginning there is a way on: no mask is empty.
TEST(items_that_differ_can_always_be_written) {
  for (const char* const items : {R"({"enum": ["a", "ab", "abb", "b"]})", R"({"type": "integer"})",
                                  R"({"type": "integer", "minimum": 0, "maximum": 21})", R"({"type": "string"})",
                                  R"({"type": "integer", "minimum": 7})"}) {
    const auto constraint = compiler().json_schema(
        R"({"type": "array", "minItems": 4, "uniqueItems": true, "items": )" + std::string(items) + "}");
    for (std::uint64_t seed = 1; seed < 60; ++seed) {
      constraint->truncate(0);
      std::uint64_t state = seed;
      for (int length = 0; length < 60; ++length) {
        const sampling::TokenMask mask = mask_of(*constraint);
        CHECK(!mask.empty());
        std::vector<Token> likely;
        for (const char c : std::string("ab017\", []\"")) {
          if (mask.contains(static_cast<Token>(c - ' '))) likely.push_back(static_cast<Token>(c - ' '));
        }
        if (likely.empty()) {
          for (Token token = 0; token < toy_vocabulary().control && likely.empty(); ++token) {
            if (mask.contains(token)) likely.push_back(token);
          }
        }
        if (likely.empty()) likely.push_back(toy_vocabulary().end);
        if (likely[0] == toy_vocabulary().end) break;
        state = state * 6364136223846793005u + 1442695040888963407u;
        CHECK(constraint->advance(likely[(state >> 33) % likely.size()]));
      }
    }
  }
}

TEST(items_whose_difference_is_not_enforced) {
  const auto rejects = [](const std::string& schema, const std::string& place) {
    CHECK_THROWS(compiler().json_schema(schema), std::invalid_argument, "niqueItems is not supported");
    SchemaStyle loose;
    loose.is_strict = false;
    CHECK(schema_grammar(schema, loose).ignored == std::vector<std::string>{place});
  };
  for (const char* const items :
       {R"({"type": "number"})", R"({"type": "string", "maxLength": 3})", R"({"type": "string", "format": "uuid"})",
        R"({"type": "integer", "minimum": -3})", R"({"type": "integer", "minimum": 0, "maximum": 100000})",
        R"({"type": "array", "items": {"type": "null"}})", R"({"enum": [[], 2]})", "{}"})
    rejects(R"({"type": "array", "uniqueItems": true, "items": )" + std::string(items) + "}", "/uniqueItems");
  rejects(R"({"anyOf": [{"type": "array", "uniqueItems": true, "items": {"enum": [1]}}, {"type": "array", "items":
      {"enum": [1]}}]})",
          "/anyOf/0/uniqueItems");
  CHECK_THROWS(compiler().json_schema(R"({"type": "array", "uniqueItems": true, "minItems": 3, "items": {"type":
      "boolean"}})"),
               std::invalid_argument, "allows no value");
}

TEST(numbers_of_properties) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const":
      3}}, "required": ["b"], )";
  const auto takes = [&](const std::string& rule, const std::string& text) {
    return schema_takes(schema + rule + "}", text);
  };
  const std::string two = R"("minProperties": 2)", at_most_two = R"("maxProperties": 2)";
  CHECK(!takes(two, R"({"b": 2})") && takes(two, R"({"a": 1, "b": 2})") && takes(two, R"({"a": 1, "b": 2, "c": 3})"));
  CHECK(takes(at_most_two, R"({"b": 2})") && takes(at_most_two, R"({"b": 2, "c": 3})") &&
        !takes(at_most_two, R"({"a": 1, "b": 2, "c": 3})"));
  CHECK(schema_takes(R"({"type": "object", "properties": {"a": {"const": 1}}, "maxProperties": 0})", "{}"));
  CHECK_THROWS(compiler().json_schema(schema + R"("minProperties": 4})"), std::invalid_argument, "allows no value");
  const char* const map = R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 2})";
  CHECK(!schema_takes(map, R"({"a": null})") && schema_takes(map, R"({"a": null, "b": null, "c": null})") &&
        !schema_takes(map, R"({"a": null, "a": null})") && !schema_takes(map, R"({"a": null, "\u0061": null})"));
  const char* const named = R"({"type": "object", "additionalProperties": {"type": "object"}, "minProperties": 2,
      "propertyNames": {"enum": ["a", "ab", "b"]}})";
  CHECK(!schema_takes(named, R"({"a": {}})") && !schema_takes(named, R"({"a": {}, "a": {}})") &&
        schema_takes(named, R"({"ab": {"a": 1}, "a": {}, "b": {"a": 1}})"));
  const char* const one_of = R"({"type": "object", "additionalProperties": {"type": "null"}, "propertyNames": {"$ref":
      "#/$defs/name"}, "$defs": {"name": {"enum": ["a", "b"]}}})";
  CHECK(schema_takes(one_of, "{}") && schema_takes(one_of, R"({"b": null, "a": null})") &&
        !schema_takes(one_of, R"({"b": null, "b": null})"));
  (void)compiler().json_schema(R"({"type": "object", "properties": {"m": {"type": "object", "propertyNames": {"enum":
      ["a"]}}, "n": {"type": "object", "properties": {"m": {"type": "object", "propertyNames": {"enum": ["b"]}}}}}})");
  const auto full = compiler().json_schema(one_of);  // ends
  for (const char c : std::string(R"({"b": null, "a": null)")) CHECK(full->advance(static_cast<Token>(c - ' ')));
  CHECK(mask_of(*full).only_token() == static_cast<Token>('}' - ' '));
  const char* const inside = R"({"type": "object", "properties": {"m": {"type": "object", "additionalProperties":
      {"type": "object", "additionalProperties": {"type": "integer"}}, "minProperties": 2}}})";
  CHECK(schema_takes(inside, R"({"m": {"a": {"a": 1}, "b": {"a": 1}}})") &&
        !schema_takes(inside, R"({"m": {"a": {"a": 1}, "a": {"b": 1}}})"));
}

TEST(properties_without_a_list) {
  const char* const some = R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1,
      "maxProperties": 2})";
  CHECK(!schema_takes(some, "{}") && schema_takes(some, R"({"a": null})") &&
        schema_takes(some, R"({"a": null, "b": null})"));
  CHECK(!schema_takes(some, R"({"a": null, "b": null, "c": null})"));
  const char* const named = R"({"type": "object", "additionalProperties": {"type": "null"}, "propertyNames": {"enum":
      ["a", "b"]}})";
  CHECK(schema_takes(named, "{}") && schema_takes(named, R"({"b": null})") && !schema_takes(named, R"({"c": null})"));
  const char* const patterned = R"({"type": "object", "patternProperties": {"^x_[a-z]+$": {"type": "null"}}})";
  CHECK(schema_takes(patterned, R"({"x_a": null})") && !schema_takes(patterned, R"({"a": null})") &&
        !schema_takes(patterned, R"({"x_a": 1})"));
}

TEST(a_call_or_a_text) {
  const ConstraintCompiler::Call call = {"root ::= \"p:\" \"call(\" [a-z]+ \")\"", "p:"};
  const char* const schema = R"({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]})";
  for (const char* text : {"call(a)", "{\"a\": 1}"}) CHECK(matches(*compiler().json_schema(schema, true, call), text));
  CHECK(!matches(*compiler().json_schema(schema, true, call), "other"));
  CHECK(matches(*compiler().call(call), "call(a)") && !matches(*compiler().call(call), "{\"a\": 1}"));
  CHECK(matches(*compiler().regex("yes|no", call), "no") && matches(*compiler().regex("yes|no", call), "call(no)"));
  CHECK_THROWS(compiler().call({"root ::= missing", ""}), std::invalid_argument, "tools is not valid: ");
  CHECK_THROWS(compiler().json_schema(schema, true, {"root ::= missing", ""}), std::invalid_argument,
               "tools is not valid: ");
}

TEST(bad_grammars_and_regular_expressions) {
  CHECK_THROWS(compiler().grammar("root ::= \"a\n"), std::invalid_argument, "line 1");
  CHECK_THROWS(compiler().grammar("root ::= missing"), std::invalid_argument, "missing");
  CHECK_THROWS(compiler().grammar("start ::= \"a\""), std::invalid_argument, "root");
  CHECK_THROWS(compiler().grammar(""), std::invalid_argument, "grammar is empty");
  CHECK_THROWS(compiler().grammar("root ::= " + std::string(40, '(') + "\"a\"" + std::string(40, ')')),
               std::invalid_argument, "levels deep");
  CHECK_THROWS(compiler().grammar("root ::= ([a-z]{30}){30}"), std::invalid_argument, "more than 512 classes");
  CHECK_THROWS(compiler().regex("(a{100}){100}"), std::invalid_argument, "regex cannot be used: needs too many states");
  CHECK_THROWS(compiler().regex("a{99999999999999999999}"), std::invalid_argument, "too many states");
  CHECK_THROWS(compiler().regex("(.*a){20}.{20}"), std::invalid_argument, "too many states");
  CHECK_THROWS(compiler().grammar("root ::= r{600}\nr ::= \"a\""), std::invalid_argument, "more than 512 classes");
  CHECK_THROWS(compiler().regex(std::string(5000, 'a')), std::invalid_argument, "at most 4096 are allowed");
  CHECK_THROWS(compiler().regex("(a"), std::invalid_argument, "regex is not valid");
  CHECK_THROWS(compiler().regex("(?=a)"), std::invalid_argument, "ookahead");
  CHECK_THROWS(compiler().regex("a\\bc"), std::invalid_argument, "ord boundary");
  CHECK_THROWS(compiler().regex("\xff"), std::invalid_argument, "not UTF-8");
}

TEST(errors_of_grammars_name_the_place) {
  const auto fails = [](const std::string& gbnf, const std::string& words) {
    std::string problem;
    try {
      (void)compiler().grammar(gbnf);
    } catch (const std::invalid_argument& error) {
      problem = error.what();
    }
    if (problem.find("grammar is not valid: " + words) == std::string::npos)
      check::fail(__FILE__, __LINE__, problem + ", instead of: " + words);
  };
  fails("root ::= a\n", "line 1, character 10: 'a': no rule has this name");
  fails("root ::= \"a\"\nroot ::= \"b\"", "line 2, character 1: 'root': this rule is defined twice");
  fails("root ::= \"a\" )", "line 1, character 14: ')': no parenthesis is open");
  fails("root ::= (\"a\"", "line 1, character 10: '(': the parenthesis is not closed");
  fails("root ::= [b-a]", "line 1, character 11: 'b-a': the range is backwards");
  fails("root ::= \"\u00e4\" \"\\q\"", "line 1, character 15: '\\q': invalid escape");
  fails("root ::= \"a\"{x}", "line 1, character 13: '{x': a count is {n}, {n,} or {n,m}");
  fails("root ::= (=\"a\")", "line 1, character 10: '(=': lookahead is not supported");
  fails("root ::= <[3]>", "line 1, character 10: '<': tokens are not supported");
  fails("root ::= TagDispatch((\"a\", b))", "line 1, character 22: '(': the parenthesis is not closed");
  fails("root ::= a\na ::= \"x\" (a | root)",
        "line 1, character 1: 'root': this rule needs itself, so no text matches it");
  fails("x", "line 1, character 1: 'x': a rule must begin here");
}

TEST(grammars_that_call_themselves) {
  for (const char* grammar : {"root ::= root \"a\" | \"b\"", "root ::= other \"a\" | \"b\"\nother ::= root"}) {
    CHECK(grammar_takes(grammar, "ba") && grammar_takes(grammar, "baaa") && !grammar_takes(grammar, "a"));
  }
}

TEST(alternatives_with_nothing_in_them) {
  for (const char* gbnf : {"root ::= \"a\" rest\nrest ::= | \"b\" | # more\n  \"c\"", "root ::= \"a\" (|\"b\"|\"c\")",
                           "root ::= \"a\" (\"b\" | \"c\" | )", "root ::= \"a\" ( \"b\" | | \"c\")",
                           "root ::= \"a\" () rest\nrest ::= \"b\" | \"c\" |\n"}) {
    const auto constraint = compiler().grammar(gbnf);
    CHECK(matches(*constraint, "a") && matches(*constraint, "ab") && matches(*constraint, "ac"));
    CHECK(!matches(*constraint, "") && !matches(*constraint, "abc"));
  }
}

// A rolled back output keeps the prefix.
TEST(a_grammar_that_the_prompt_has_begun) {
  const std::string gbnf = "root ::= \"ab\" [0-9]+";
  const auto constraint = compiler().call({gbnf, "a"});
  CHECK(matches(*constraint, "b12"));
  CHECK(!matches(*constraint, "ab12"));
  CHECK(!matches(*constraint, "b"));
  CHECK(matches(*compiler().call({gbnf, "ab1"}), ""));
  CHECK_THROWS(compiler().call({gbnf, "b"}), std::invalid_argument, "tools does not match");
}

TEST(text_with_calls_between_marks) {
  const std::string schema = R"({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})";
  const std::string older =
      R"({"type": "structural_tag", "triggers": ["<f"], "structures": [{"begin": "<f=a>", "schema": )" + schema +
      R"(, "end": "</f>"}]})";
  const std::string newer =
      R"({"format": {"type": "triggered_tags", "triggers": ["<f"], "tags": [{"begin": "<f=a>", "content": {"type":
      "json_schema", "json_schema": )" +
      schema + R"(}, "end": "</f>"}]}})";
  for (const std::string& tag : {older, newer}) {
    const auto constraint = compiler().structural_tag(tag);
    CHECK(matches(*constraint, "any text") && matches(*constraint, ""));
    CHECK(matches(*constraint, R"(a <f=a>{"n": 1}</f> b <f=a>{"n":-2}</f>)"));
    CHECK(!matches(*constraint, "a <f=b>") && !matches(*constraint, R"(<f=a>{"n": "x"}</f>)"));
    CHECK(!matches(*constraint, R"(<f=a>{"n": 1})"));                                 // has no end
    CHECK(!matches(*constraint, R"(<f=a>{"n":  1}</f>)"));                            // whitespace ends
    CHECK(!matches(*constraint, R"(<f=a>{"n": )" + std::string(17, '1') + "}</f>"));  // and so do numbers
  }
}

TEST(formats_of_a_structural_tag) {
  const auto takes = [](const std::string& format, const std::string& text) {
    return tag_takes(R"({"type": "structural_tag", "format": )" + format + "}", text);
  };
  const std::string sequence = R"({"type": "sequence", "elements": [{"type": "tag", "begin": "<t>", "content": {"type":
      "any_text"}, "end": "</t>"}, {"type": "or", "elements": [{"type": "const_string", "value": "yes"},
      {"type": "regex", "pattern": "n[0-9]{2}"}, {"type": "grammar", "grammar": "root ::= \"g\" [a-c]+"}]}]})";
  CHECK(takes(sequence, "<t>why</t>yes") && takes(sequence, "<t></t>n12") && takes(sequence, "<t>a</t>gab"));
  CHECK(!takes(sequence, "yes") && !takes(sequence, "<t>a</t>n1") && !takes(sequence, "<t>a</t>gd"));
  const char* const anchored = R"J({"type": "regex", "pattern": "(^[\\^a].$)"})J";
  CHECK(takes(anchored, "^x") && takes(anchored, "aa") && !takes(anchored, "xa") && !takes(anchored, "a\n"));
  const std::string repeat =
      R"({"type": "repeat", "min": 2, "max": 3, "content": {"type": "const_string", "value": "a"}})";
  CHECK(takes(repeat, "aa") && takes(repeat, "aaa") && !takes(repeat, "a") && !takes(repeat, "aaaa"));
  const std::string length = R"({"type": "json_schema", "json_schema": {"type": "string", "maxLength": 40}})";
  CHECK(takes(length, '"' + std::string(40, 'x') + '"') && !takes(length, '"' + std::string(41, 'x') + '"'));
}

TEST(structural_tags_that_are_wrong) {
  const auto fails = [](const std::string& tag, const std::string& words) {
    std::string problem;
    try {
      (void)compiler().structural_tag(tag);
    } catch (const std::invalid_argument& error) {
      problem = error.what();
    }
    if (problem.find(words) == std::string::npos) check::fail(__FILE__, __LINE__, problem + ", instead of: " + words);
  };
  fails("", "structural_tag is empty");
  fails("{", "structural_tag is not JSON");
  fails("[]", "structural_tag must be an object");
  fails(R"({"type": "x", "format": {}})", "its type must be");
  fails("{}", "it must have a format, or structures and triggers");
  fails(R"({"structures": [{"begin": "a"}], "triggers": ["a"]})", "each of /structures has a begin");
  fails(R"({"format": {}})", "/format is not a format");
  fails(R"({"format": {"type": "hiccup"}})", "/format/type is \"hiccup\", which is not a type of format");
  // The schema would be enforced in the form of JSON only.
  fails(R"({"format": {"type": "qwen_xml_parameter", "json_schema": {}}})", "which is not a type of format");
  fails(R"({"format": {"type": "json_schema", "json_schema": {}, "style": "qwen_xml"}})",
        "/format/style must be \"json\"");
  fails(R"({"format": {"type": "json_schema", "json_schema": {}, "excludes": ["x"]}})",
        "/format/excludes cannot be used with a schema");
  fails(R"({"format": {"type": "regex", "pattern": "(a"}})",
        "structural_tag cannot be used: /format/pattern is not valid: '(' at character 1: the group is not closed");
  fails(R"({"format": {"type": "regex", "pattern": "a^b"}})", "/format/pattern");
  fails(R"({"format": {"type": "optional", "content": {"type": "regex"}}})", "/format/content has no \"pattern\"");
  fails(R"({"format": {"type": "grammar", "grammar": "root ::= x"}})",
        "/format/grammar is not valid: line 1, character 10: 'x': no rule has this name");
  fails(R"({"format": {"type": "sequence", "elements": []}})", "/format/elements must be a list that is not empty");
  fails(R"({"format": {"type": "const_string", "value": 1}})", "/format/value must be a string");
  fails(R"({"format": {"type": "regex", "pattern": "[a-z]{9999}"}})", "/format/pattern");
  fails(R"({"format": {"type": "repeat", "min": 0, "max": 99999, "content": {"type": "any_text"}}})",
        "/format/max must");
  fails(R"({"format": {"type": "repeat", "min": 0, "max": 500, "content": {"type": "repeat", "min": 0, "max": 500,
      "content": {"type": "any_text"}}}})",
        "more than 512");
  fails(R"({"format": {"type": "tag", "begin": "a", "content": {"type": "json_schema", "json_schema": {"type": "array",
      "uniqueItems": true}}, "end": "b"}})",
        "/format/content/json_schema has a part that cannot be used: /uniqueItems is not supported");
  fails(R"({"format": {"type": "json_schema", "json_schema": {"type": "string", "maxLength": 513}}})",
        "/maxLength is not supported above 512 in a part of the output");
  fails(R"({"triggers": ["<g"], "structures": [{"begin": "<f>", "schema": {}, "end": "</f>"}]})", "structural_tag");
  std::string deep = R"({"type": "any_text"})";
  for (int i = 0; i < 40; ++i) deep = R"({"type": "optional", "content": )" + deep + "}";
  fails(R"({"format": )" + deep + "}", "levels deep");
}

TEST(tokens_of_a_structural_tag) {
  const std::string a = std::to_string(int{'a'} - ' '), b = std::to_string(int{'b'} - ' ');
  const std::string named = R"({"format": {"type": "sequence", "elements": [{"type": "token", "token": )" + a +
                            R"(}, {"type": "exclude_token", "exclude_tokens": [)" + b + "]}]}}";
  CHECK(tag_takes(named, "ac") && !tag_takes(named, "ab") && !tag_takes(named, "bc") && !tag_takes(named, "a"));
  CHECK_THROWS(compiler().structural_tag(R"({"format": {"type": "token", "token": 99999}})"), std::invalid_argument,
               "structural_tag");
}

TEST_MAIN()
