#include "chat/json_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/json_depth.h"

namespace specdec {
namespace {

using Json = nlohmann::ordered_json;

constexpr int max_call_depth = 200;
const std::string code_fence = "```";

std::string unquoted(const std::string& json) {
  const Json value = Json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : json;
}

bool is_object(const std::string& json) {
  return json_depth(json) <= max_call_depth && Json::parse(json, nullptr, false).is_object();
}

// Reads the members of an object until the arguments begin, or to its end.
class ObjectReader {
 public:
  ObjectReader(const std::string& text, const Functions& functions, const std::string& name_key,
               const std::string& arguments_key, const std::string& id_key)
      : text_(text), functions_(functions), name_key_(name_key), arguments_key_(arguments_key), id_key_(id_key) {}

  JsonCallHead read(std::size_t at) {
    const auto not_whole = [](Found found) {
      JsonCallHead head;
      head.found = found;
      return head;
    };
    if (at >= text_.size()) return not_whole(Found::more);
    if (text_[at] != '{') return not_whole(Found::no);
    for (std::size_t next = skip_blank(text_, at + 1);; next = skip_blank(text_, next + 1)) {
      if (next == text_.size()) return not_whole(Found::more);
      if (text_[next] == '}') return whole(next + 1);
      const JsonMember member = json_member(text_, next);
      if (member.value == 0) return not_whole(member.found);
      const Found read = this->member(member);
      if (read != Found::yes || begins_) {
        head_.found = read;
        head_.end = member.value;
        return std::move(head_);
      }
      next = skip_blank(text_, member.end);
      if (next == text_.size()) return not_whole(Found::more);
      if (text_[next] == '}') return whole(next + 1);
      if (text_[next] != ',') return not_whole(Found::no);
    }
  }

 private:
  JsonCallHead whole(std::size_t end) {
    if (head_.name.empty()) return {};
    if (head_.arguments.empty()) head_.arguments = "{}";
    head_.found = Found::yes;
    head_.end = end;
    head_.is_whole = true;
    return std::move(head_);
  }

  // yes: read, or (begins_) its value is the arguments, which may go on.
  Found member(const JsonMember& member) {
    const char first = text_[member.value];
    const bool is_name = member.key == "name" || (!name_key_.empty() && member.key == name_key_);
    const bool is_arguments = member.key == "arguments" || member.key == "parameters" ||
                              (!arguments_key_.empty() && member.key == arguments_key_);
    const bool is_key = name_key_.empty() && functions_.count(member.key) != 0;
    if (is_key) head_.name = member.key;
    if (is_key || is_arguments) {
      if (first == '{' && !head_.name.empty()) {
        begins_ = true;
        return Found::yes;
      }
      if (member.found != Found::yes) return member.found;
      head_.arguments = member.text(text_);
      return is_object(head_.arguments) ? Found::yes : Found::no;
    }
    if (member.found != Found::yes) return may_be_name(member, is_name) ? member.found : Found::no;
    const std::string value = member.text(text_);
    if (is_name) {
      head_.name = value;
      return functions_.count(value) != 0 ? Found::yes : Found::no;
    }
    if (member.key == "id" || member.key == "tool_call_id" || (!id_key_.empty() && member.key == id_key_)) {
      head_.id = value;
      return Found::yes;
    }
    if (member.key == "type" || member.key == "index") return Found::yes;
    if (member.key != "function" || first != '{') return Found::no;
    JsonCallHead inner = ObjectReader(text_, functions_, "name", "arguments", "").read(member.value);
    if (inner.found != Found::yes) return inner.found;
    if (!inner.is_whole) {
      inner.arguments = text_.substr(inner.end, json_value_at(text_, inner.end).end - inner.end);
      if (!is_object(inner.arguments)) return Found::no;
    }
    head_.name = inner.name;
    head_.arguments = inner.arguments;
    return Found::yes;
  }

  // Whether an unfinished member may still be a part of a call.
  bool may_be_name(const JsonMember& member, bool is_name) const {
    if (is_name) {
      const std::string begun = text_.substr(member.value);
      return std::any_of(functions_.begin(), functions_.end(), [&](const auto& function) {
        const std::string name = '"' + json_escaped(function.first) + '"';
        return name.compare(0, begun.size(), begun) == 0;
      });
    }
    for (const char* const known : {"id", "tool_call_id", "type", "index", "function"}) {
      if (member.key == known) return true;
    }
    return !id_key_.empty() && member.key == id_key_;
  }

  const std::string& text_;
  const Functions& functions_;
  const std::string &name_key_, &arguments_key_, &id_key_;
  JsonCallHead head_;
  bool begins_ = false;
};

// Reads calls one after another: objects, lists of them, {"tool_calls": [...]}, with commas, semicolons or line breaks
// between.
class CallsReader {
 public:
  CallsReader(const std::string& text, std::size_t at, const Functions& functions)
      : text_(text), at_(at), functions_(functions) {}

  // The calls from here on, up to something else.
  Found read() {
    for (bool is_first = true;; is_first = false) {
      at_ = skip_blank(text_, at_);
      if (!is_first && at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ';')) at_ = skip_blank(text_, at_ + 1);
      if (at_ == text_.size()) return is_first ? Found::more : Found::yes;
      if (text_[at_] != '{' && text_[at_] != '[') return is_first ? Found::no : Found::yes;
      const Found found = value();
      if (found != Found::yes) return found;
    }
  }

  std::size_t at() const { return at_; }
  std::vector<ToolCall>& calls() { return calls_; }

 private:
  Found value() {
    if (text_[at_] == '[') return list();
    JsonCallHead head = json_call_head(text_, at_, functions_);
    if (head.found == Found::no) return wrapped();
    if (head.found == Found::more) return head.found;
    const Extent object = json_value_at(text_, at_);
    if (object.found != Found::yes) return object.found;
    const std::string all = text_.substr(at_, object.end - at_);
    if (json_depth(all) > max_call_depth || !Json::accept(all)) return Found::no;
    if (!head.is_whole) {
      head.arguments = text_.substr(head.end, json_value_at(text_, head.end).end - head.end);
      for (std::size_t next = skip_blank(text_, head.end + head.arguments.size()); text_[next] == ',';) {
        const JsonMember member = json_member(text_, skip_blank(text_, next + 1));
        if (member.found != Found::yes) return Found::no;
        if (member.key == "id" || member.key == "tool_call_id") head.id = member.text(text_);
        else if (member.key != "type" && member.key != "index") return Found::no;
        next = skip_blank(text_, member.end);
      }
    }
    calls_.push_back({head.id, head.name, head.arguments});
    at_ = object.end;
    return Found::yes;
  }

  // {"tool_calls": [...]}
  Found wrapped() {
    const JsonMember member = json_member(text_, skip_blank(text_, at_ + 1));
    if (member.value == 0) return member.found;
    if (member.key != "tool_calls" || text_[member.value] != '[') return Found::no;
    at_ = member.value;
    const Found found = list();
    if (found != Found::yes) return found;
    at_ = skip_blank(text_, at_);
    if (at_ == text_.size()) return Found::more;
    return text_[at_++] == '}' ? Found::yes : Found::no;
  }

  Found list() {
    for (at_ = skip_blank(text_, at_ + 1);; at_ = skip_blank(text_, at_ + 1)) {
      if (at_ == text_.size()) return Found::more;
      if (text_[at_] != '{') return Found::no;
      const Found found = value();
      if (found != Found::yes) return found;
      at_ = skip_blank(text_, at_);
      if (at_ == text_.size()) return Found::more;
      if (text_[at_] == ']') break;
      if (text_[at_] != ',') return Found::no;
    }
    ++at_;
    return Found::yes;
  }

  const std::string& text_;
  std::size_t at_;
  const Functions& functions_;
  std::vector<ToolCall> calls_;
};

// Tags around calls, and the names that a fenced block of calls may have.
const std::vector<std::pair<std::string, std::string>> tags = {{"<tools>", "</tools>"},
                                                               {"<tool_call>", "</tool_call>"},
                                                               {"<function_call>", "</function_call>"},
                                                               {"<|python_tag|>", ""}};  // Llama 3
const std::vector<std::string> languages = {"json",      "jsonl", "tool_call", "tool_calls",
                                            "tool_code", "tools", "xml",       ""};

// Behind the opening mark at `at`: where calls begin, and the mark that closes them. no: no such mark.
Found open_block(const std::string& text, std::size_t& at, std::string& closing) {
  for (const auto& [begin, end] : tags) {
    const Found found = mark_at(text, at, begin);
    if (found == Found::no) continue;
    at += begin.size();
    closing = end;
    return found;
  }
  const Found found = mark_at(text, at, code_fence);
  if (found != Found::yes) return found;
  closing = code_fence;
  const std::size_t name = at + code_fence.size(), end = text.find_first_of(" \t\r\n{[", name);
  const std::string language = text.substr(name, end - name);
  const auto begins = [&](const std::string& one) { return one.compare(0, language.size(), language) == 0; };
  if (end == std::string::npos)
    return std::any_of(languages.begin(), languages.end(), begins) ? Found::more : Found::no;
  if (std::find(languages.begin(), languages.end(), language) == languages.end()) return Found::no;
  at = end;
  return Found::yes;
}

}  // namespace

std::string JsonMember::text(const std::string& all) const {
  const std::string json = all.substr(value, end - value);
  return json.front() == '"' ? unquoted(json) : json;
}

JsonMember json_member(const std::string& text, std::size_t at) {
  JsonMember member;
  const Extent key = json_string_at(text, at);
  member.found = key.found;
  if (key.found != Found::yes) return member;
  const std::size_t colon = skip_blank(text, key.end);
  if (colon < text.size() && text[colon] != ':') {
    member.found = Found::no;
    return member;
  }
  const std::size_t value = skip_blank(text, std::min(colon + 1, text.size()));
  member.found = Found::more;
  if (value == text.size()) return member;
  member.key = unquoted(text.substr(at, key.end - at));
  member.value = value;
  const Extent extent = json_value_at(text, value);
  member.found = extent.found;
  member.end = extent.end;
  return member;
}

JsonCallHead json_call_head(const std::string& text, std::size_t at, const Functions& functions,
                            const std::string& name_key, const std::string& arguments_key, const std::string& id_key) {
  return ObjectReader(text, functions, name_key, arguments_key, id_key).read(at);
}

const std::vector<std::string>& json_call_marks() {
  static const std::vector<std::string> marks = [] {
    std::vector<std::string> list = {code_fence};
    for (const auto& [begin, end] : tags) list.push_back(begin);
    return list;
  }();
  return marks;
}

JsonCallsAt json_calls_at(const std::string& text, std::size_t at, const Functions& functions, bool is_end) {
  JsonCallsAt result;
  while (at < text.size()) {
    std::string closing;
    const Found opened = open_block(text, at, closing);
    if (opened == Found::more) {
      result.found = Found::more;
      return result;
    }
    CallsReader reader(text, at, functions);
    const Found found = reader.read();
    if (found != Found::yes) {
      result.found = found;
      return result;
    }
    std::move(reader.calls().begin(), reader.calls().end(), std::back_inserter(result.calls));
    at = reader.at();
    const Found closed = closing.empty() ? Found::yes : mark_at(text, at, closing);
    if (closed != Found::yes) {  // the end may be missing at the end of the text
      result.found = closed == Found::more && is_end && at == text.size() ? Found::yes : closed;
      return result;
    }
    at = skip_blank(text, at + closing.size());
  }
  result.found = is_end ? Found::yes : Found::more;
  return result;
}

std::string schema_of_json_call(const ToolSchemas& tools) {
  Json calls = Json::array(), document = Json::parse(tools.document);
  for (std::size_t i = 0; i < tools.names.size(); ++i) {
    const Json arguments = {{"$ref", "#" + ToolSchemas::pointer(i)}};
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", tools.names[i]}}}, {"arguments", arguments}}},
                     {"required", {"name", "arguments"}},
                     {"additionalProperties", false}});
  }
  if (calls.empty()) throw std::invalid_argument("there are no tools");
  document["anyOf"] = std::move(calls);
  return document.dump();
}

}  // namespace specdec
