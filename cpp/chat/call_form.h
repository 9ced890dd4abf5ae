// How a chat template writes tool calls: the marks around them and around their arguments. Found in the parser that
// llama.cpp derives from the template for a tool of ours, so a client's schemas have no influence on it.
#pragma once

#include <string>
#include <vector>

struct common_chat_params;

namespace specdec {

// A part of the text from the beginning of a call to its arguments.
struct HeadPart {
  enum Kind { literal, name, id, until, characters } kind;
  std::string text;          // literal: the mark. until: the mark it ends before. Otherwise empty
  bool is_optional = false;  // it may be missing
  bool is_id = false;        // it belongs to the call's id
};

// What the arguments look like:
//   json_object   {"name": "f", "arguments": {...}}, or {"f": {...}}
//   named_json    f<sep>{...}
//   tags          <function=f><parameter=key>value</parameter></function>
//   gemma         f{key:<|"|>text<|"|>,list:[1]}
//   other         llama.cpp's parser reads it, once it is complete
enum class CallShape { none, json_object, named_json, tags, gemma, other };

struct CallForm {
  CallShape shape = CallShape::none;
  std::vector<std::string>
      starts;  // marks at which text may end and a call begin; empty: it begins with its first part
  std::vector<std::string> openings;  // before a call, in this order; all but the last may be missing
  std::vector<std::string> closings;  // after a call, in this order; any may be missing
  std::vector<HeadPart> head;         // named_json, tags, gemma: from behind the openings to the arguments

  bool begins_answer = false;                   // the first part of an answer may be a call without an opening
  std::string name_key, arguments_key, id_key;  // json_object; without name_key the function's name is the key

  // tags. A value ends with value_close only where another key or the end of the call follows.
  std::string key_open;
  std::vector<HeadPart> key_close;  // between the key and its value
  std::string value_end;            // may stand before value_close: ]]>
  std::string value_close;
  bool is_value_on_lines = false;  // the value has a line break before and after it
  bool says_if_string = false;     // the `until` of key_close is "true" for strings
};

// What an answer consists of besides calls.
struct ContentForm {
  std::vector<std::string> begins, ends;  // marks around content
};

// params: for the tool that probe_tool() describes.
CallForm call_form(const common_chat_params& params);
ContentForm content_form(const common_chat_params& params);

// A list with one tool, in JSON.
const char* probe_tool();

// The id of a call in the conversations with which llama.cpp probes a template.
constexpr const char* probe_id = "call00001";

}  // namespace specdec
