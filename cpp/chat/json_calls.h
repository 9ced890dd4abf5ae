// Tool calls as JSON objects: {"name": "f", "arguments": {...}} and the forms of OpenAI's API. Also those that a model
// writes bare, in a fenced block or in tags, because its template has no form of its own or it forgets that form.
// Arguments keep their text: numbers and escapes stay as they were written.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "chat/argument_types.h"
#include "chat/chat_output.h"
#include "chat/json_scan.h"
#include "chat/tool_schemas.h"

namespace specdec {

using Functions = std::map<std::string, std::map<std::string, ArgumentTypes>>;

// A member of an object: "key": value.
struct JsonMember {
  Found found = Found::no;  // yes: whole; more: the text ends within it
  std::string key;          // known as soon as `value` is
  std::size_t value = 0;    // where the value begins; 0: not yet known
  std::size_t end = 0;
  std::string text(const std::string& all) const;  // of a value that is a string; otherwise its JSON
};
JsonMember json_member(const std::string& text, std::size_t at);

// An object that calls one of these functions. found is yes as soon as the arguments begin, unless the name comes
// behind them or they are a string; then when the object is whole. An empty name_key: {"f": {...}}.
struct JsonCallHead {
  Found found = Found::no;
  std::size_t end = 0;  // where the arguments begin, or behind the whole object
  std::string id, name, arguments;
  bool is_whole = false;
};
JsonCallHead json_call_head(const std::string& text, std::size_t at, const Functions& functions,
                            const std::string& name_key = "name", const std::string& arguments_key = "arguments",
                            const std::string& id_key = "id");

// What stands before calls that have no marks of their own: a fence, tags.
const std::vector<std::string>& json_call_marks();

// The calls from such a mark, or a bracket, to the end of the text, if there is nothing else. is_end: no more text
// comes.
struct JsonCallsAt {
  Found found = Found::no;
  std::vector<ToolCall> calls;
};
JsonCallsAt json_calls_at(const std::string& text, std::size_t at, const Functions& functions, bool is_end);

// A JSON schema of a call of one of these tools. Throws std::invalid_argument if there are none.
std::string schema_of_json_call(const ToolSchemas& tools);

}  // namespace specdec
