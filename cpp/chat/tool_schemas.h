// The schemas of tools' arguments. llama.cpp derives from a template and a list of tools how calls are written; it
// never sees a client's schemas: it gets marks in their place, and the engine writes the rules for what the marks stand
// for.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace specdec {

// All in one document, {"$defs": {"arguments0": {...}, ...}}, with references that lead to where things are now.
struct ToolSchemas {
  std::string document;
  std::vector<std::string> names;  // of the functions, in the order of the tools

  static std::string pointer(std::size_t tool);  // to a function's schema in the document

  // A message, or a JSON pointer into the document, with the places that users know: "/$defs/arguments0/properties/x"
  // becomes "weather: /properties/x".
  std::string named(const std::string& text) const;
};
ToolSchemas tool_schemas(const std::string& tools);

// A mark is a number that occurs nowhere in the tools.
struct SchemaMark {
  std::string text;
  std::string pointer;  // of the schema that it stands for, in the document
};
struct MarkedTools {
  std::string tools;
  std::vector<SchemaMark> marks;
  std::vector<std::string> ignored;  // pointers of keywords that no mark stands for
  // Those of MarkedPart::each_argument that may be a string or something else, by function and name. The tools have no
  // marks for them: their strings are written without quotes.
  std::map<std::pair<std::string, std::string>, SchemaMark> mixed;
};
// What is marked: the arguments of a function as a whole; each one that cannot be a string, which calls in tags write
// without quotes; or such parts of arguments, where objects and arrays are written in tags, too.
enum class MarkedPart { arguments, each_argument, each_leaf };
MarkedTools with_marks(const std::string& tools, MarkedPart part);
std::string without_required(const std::string& tools);  // as with_marks() returns them
// The names of the arguments that each function requires.
std::map<std::string, std::set<std::string>> required_arguments(const std::string& tools);

// The tools with the types of their arguments and no other keywords.
std::string with_types_only(const std::string& tools);

}  // namespace specdec
