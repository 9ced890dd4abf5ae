// JSON schemas: which of their keywords are enforced. Others are errors, so that no output breaks a schema, or are left
// to the caller who asks for that.
#pragma once

#include <string>
#include <vector>

#include "constraints/json_text.h"

namespace specdec {

struct SupportedSchema {
  std::string text;
  std::vector<std::string> patterns;  // each as a schema of its own: a string of this pattern
  JsonLimits limits;                  // the longest strings, which `text` does not bound
  std::vector<std::string> ignored;   // places of keywords, as JSON pointers, that are not enforced; only if not strict
  std::int64_t num_places = 0;        // counted ones, see limits.h
};

// The schema as xgrammar gets it: without annotations, "{}" as any object, and lengths of strings as patterns. Throws
// ArgumentError that names the first keyword that is not valid, and its place as a JSON pointer; if strict, also for
// one that is not supported. Not whole: the JSON is a part of the output, and `limits` are of no use: `text` has what
// it can of them.
SupportedSchema supported_schema(const std::string& text, bool is_strict = true, bool is_whole = true);

}  // namespace specdec
