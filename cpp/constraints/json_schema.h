// Decides which keywords of JSON schemas are enforced. Other keywords are errors, so that no output violates a schema,
// unless the caller asks to take care of them.
#pragma once

#include <string>
#include <vector>

#include "constraints/json_text.h"

namespace specdec {

struct SupportedSchema {
  std::string text;
  std::vector<std::string> patterns;  // each pattern as a schema of its own for a string
  JsonLimits limits;                  // lengths of strings that `text` does not bound
  std::vector<std::string> ignored;   // places, as JSON pointers, of keywords that are not enforced; only if not strict
  std::int64_t num_places = 0;        // counted places, see limits.h
};

// The schema in xgrammar's form: without annotations, with "{}" as any object and lengths of strings as patterns.
// Throws ArgumentError that names the first invalid keyword and its place as a JSON pointer; if strict, also for an
// unsupported one. is_whole false: the JSON is only a part of the output, so `limits` cannot be applied, and `text`
// covers what it can of them.
SupportedSchema supported_schema(const std::string& text, bool is_strict = true, bool is_whole = true);

}  // namespace specdec
