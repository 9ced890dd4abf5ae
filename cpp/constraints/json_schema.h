// JSON schemas: which of their keywords are enforced. Others are errors, so that no output breaks a schema.
#pragma once

#include <string>
#include <vector>

namespace specdec {

struct SupportedSchema {
  std::string text;
  std::vector<std::string> patterns;  // each as a schema of its own: a string of this pattern
};

// The schema as xgrammar gets it: without annotations, "{}" as any object, and lengths of strings as patterns. Throws
// ArgumentError that names the first keyword that is not supported, or is not valid, and its place as a JSON pointer.
SupportedSchema supported_schema(const std::string& text);

}  // namespace specdec
