// The types that a tool's parameters may have, for calls whose form writes values without quotes.
#pragma once

#include <map>
#include <set>
#include <string>

namespace specdec {

struct ArgumentTypes {
  // fraction: a number that is not whole.
  bool string = true, fraction = true, whole = true, boolean = true, null = true, object = true, array = true;
  std::set<std::string> texts = {};  // strings of an enum that may look like other values: "2" in ["2", 3]

  bool is_string_only() const { return string && !fraction && !whole && !boolean && !null && !object && !array; }
};

// The parameters of each function in a list of tools, in JSON. Text that is no such list has no functions.
std::map<std::string, std::map<std::string, ArgumentTypes>> argument_types(const std::string& tools);

// A value that a model wrote as text, as JSON of one of the types. Text that is none of them stays text.
std::string argument_json(const std::string& text, const ArgumentTypes& types);

}  // namespace specdec
