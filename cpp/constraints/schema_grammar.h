// From a JSON schema to the grammar of the texts that satisfy it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "constraints/json_text.h"
#include "constraints/limits.h"

namespace specdec {

struct SchemaStyle {
  bool is_strict = true;  // a keyword that is not enforced is an error; otherwise it is listed as ignored
  // The JSON is the whole output, so that rules may be applied that a grammar cannot express (JsonPlaces).
  bool is_whole = true;
  // Between the parts of JSON: -1: as Python's json.dumps writes it, on one line; otherwise up to as many blanks, line
  // ends and tabs.
  int max_whitespace = -1;
  std::string prefix = "json";  // of the names of rules
  GrammarSource source = GrammarSource::client;
};

struct SchemaGrammar {
  std::string rules;  // in xgrammar's notation (gbnf.h), a line each
  std::string root;   // the name of the rule for the whole value
  JsonPlaces places;
  std::vector<std::string> ignored;  // keywords that are not enforced, as JSON pointers into the schema
};

// Throws ArgumentError "json_schema cannot be used: PLACE ...", where PLACE is a JSON pointer into the schema. "{}"
// stands for any object.
SchemaGrammar schema_grammar(const std::string& schema, const SchemaStyle& style);

// The same for several schemas within a document, at these JSON pointers. They share rules; `roots` has the names of
// theirs. style.is_whole is false.
struct SchemaParts {
  std::string rules;
  std::vector<std::string> roots;
  std::vector<std::string> ignored;
};
SchemaParts schema_parts(const std::string& document, const std::vector<std::string>& pointers,
                         const SchemaStyle& style);

}  // namespace specdec
