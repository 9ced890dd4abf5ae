// The values of "format" that are enforced, as patterns. Any other format is an annotation, as in JSON Schema.
#pragma once

#include <string>

namespace specdec {

// A regular expression that the whole text must match; null: the format is not enforced. It may be narrower than the
// format: days exist, times have the offset that RFC 3339 asks for, hosts have ASCII letters.
const std::string* pattern_of_format(const std::string& format);

// For "uri" with a maxLength, which is how pydantic writes HttpUrl: such a text can end at any character.
extern const char* const web_address;

// The patterns that others write with features that are not supported, rewritten; null: it stays as it is.
const char* rewritten_pattern(const std::string& pattern);

}  // namespace specdec
