// JSON schemas: which of their keywords are enforced. Others are errors, so that no output breaks a schema.
#pragma once

#include <string>

namespace specdec {

// The schema as xgrammar gets it: without annotations, and "{}" as any object. Throws std::invalid_argument that names the first keyword
// that is not supported, or is not valid, and its place as a JSON pointer.
std::string supported_schema(const std::string& text);

}  // namespace specdec
