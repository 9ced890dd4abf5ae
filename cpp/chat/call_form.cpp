#include "chat/call_form.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <variant>

#include "chat-peg-parser.h"
#include "chat.h"
#include "chat/marks.h"
#include "peg-parser.h"

namespace specdec {
namespace {

constexpr const char* probe_name = "probe_of_a_tool";
constexpr const char* probe_text = "probe_of_a_text";

// The first call in a parser as a flat list, with the first alternative of each choice.
struct Part {
  enum Kind {
    literal,
    name,
    id,
    until,
    characters,
    json_arguments,
    key,
    text_value,
    json_value,
    value_close,
    call_close
  };
  Kind kind;
  std::string text;
  int optional;  // depth in what may be missing
  bool is_id;
};

class Flattener {
 public:
  explicit Flattener(const common_peg_arena& arena) : arena_(arena) {}

  std::vector<Part> flatten(common_peg_parser_id id) {
    visit(id);
    return std::move(parts_);
  }

 private:
  void add(Part::Kind kind, std::string text = "") { parts_.push_back({kind, std::move(text), optional_, in_id_}); }

  void visit(common_peg_parser_id id) {
    if (!open_.insert(id).second) return;
    const common_peg_parser_variant& parser = arena_.get(id);
    if (const auto* literal = std::get_if<common_peg_literal_parser>(&parser)) {
      const bool closes_value = in_value_close_, closes_call = in_call_close_;
      if (!trimmed(literal->literal).empty() || literal->literal.find('\n') != std::string::npos)
        add(closes_value ? Part::value_close : closes_call ? Part::call_close : Part::literal, literal->literal);
    } else if (const auto* sequence = std::get_if<common_peg_sequence_parser>(&parser)) {
      for (const common_peg_parser_id child : sequence->children) visit(child);
    } else if (const auto* choice = std::get_if<common_peg_choice_parser>(&parser)) {
      if (!choice->children.empty()) visit(choice->children.front());
    } else if (const auto* repetition = std::get_if<common_peg_repetition_parser>(&parser)) {
      const bool is_call = has_name(repetition->child);
      if (is_call && has_name_) {  // further calls
      } else {
        const bool is_optional = repetition->min_count == 0 && !is_call;
        optional_ += is_optional ? 1 : 0;
        visit(repetition->child);
        optional_ -= is_optional ? 1 : 0;
      }
    } else if (const auto* until = std::get_if<common_peg_until_parser>(&parser)) {
      if (!until->delimiters.empty()) add(Part::until, until->delimiters.front());
    } else if (std::get_if<common_peg_chars_parser>(&parser) != nullptr ||
               std::get_if<common_peg_string_parser>(&parser) != nullptr) {
      add(Part::characters);
    } else if (const auto* tagged = std::get_if<common_peg_tag_parser>(&parser)) {
      visit_tag(*tagged);
    } else if (const auto* rule = std::get_if<common_peg_rule_parser>(&parser)) {
      visit(rule->child);
    } else if (const auto* reference = std::get_if<common_peg_ref_parser>(&parser)) {
      visit(arena_.get_rule(reference->name));
    } else if (const auto* atomic = std::get_if<common_peg_atomic_parser>(&parser)) {
      visit(atomic->child);
    } else if (const auto* grammar = std::get_if<common_peg_gbnf_parser>(&parser)) {
      visit(grammar->child);
    } else if (const auto* ac = std::get_if<common_peg_ac_parser>(&parser)) {
      visit(ac->child);
    }
    open_.erase(id);
  }

  void visit_tag(const common_peg_tag_parser& tagged) {
    using Builder = common_chat_peg_builder;
    if (tagged.tag == Builder::TOOL_NAME) {
      add(Part::name);
      has_name_ = true;
    } else if (tagged.tag == Builder::TOOL_ARGS && !has_tag(tagged.child, Builder::TOOL_ARG_NAME)) {
      add(Part::json_arguments);
    } else if (tagged.tag == Builder::TOOL_ARG_NAME) {
      add(Part::key);
    } else if (tagged.tag == Builder::TOOL_ARG_STRING_VALUE) {
      add(Part::text_value);
    } else if (tagged.tag == Builder::TOOL_ARG_VALUE) {
      add(Part::json_value);
    } else {
      bool& flag = tagged.tag == Builder::TOOL_ID          ? in_id_
                   : tagged.tag == Builder::TOOL_ARG_CLOSE ? in_value_close_
                   : tagged.tag == Builder::TOOL_CLOSE     ? in_call_close_
                                                           : ignored_;
      const bool before = flag;
      flag = true;
      visit(tagged.child);
      flag = before;
    }
  }

  bool has_name(common_peg_parser_id id) { return has_tag(id, common_chat_peg_builder::TOOL_NAME); }

  bool has_tag(common_peg_parser_id id, const std::string& tag) {
    std::set<common_peg_parser_id> seen;
    return has_tag(id, tag, seen);
  }
  bool has_tag(common_peg_parser_id id, const std::string& tag, std::set<common_peg_parser_id>& seen) {
    if (!seen.insert(id).second) return false;
    const common_peg_parser_variant& parser = arena_.get(id);
    const auto any = [&](const std::vector<common_peg_parser_id>& children) {
      return std::any_of(children.begin(), children.end(),
                         [&](common_peg_parser_id child) { return has_tag(child, tag, seen); });
    };
    if (const auto* tagged = std::get_if<common_peg_tag_parser>(&parser))
      return tagged->tag == tag || has_tag(tagged->child, tag, seen);
    if (const auto* sequence = std::get_if<common_peg_sequence_parser>(&parser)) return any(sequence->children);
    if (const auto* choice = std::get_if<common_peg_choice_parser>(&parser)) return any(choice->children);
    if (const auto* repetition = std::get_if<common_peg_repetition_parser>(&parser))
      return has_tag(repetition->child, tag, seen);
    if (const auto* rule = std::get_if<common_peg_rule_parser>(&parser)) return has_tag(rule->child, tag, seen);
    if (const auto* reference = std::get_if<common_peg_ref_parser>(&parser))
      return has_tag(arena_.get_rule(reference->name), tag, seen);
    if (const auto* atomic = std::get_if<common_peg_atomic_parser>(&parser)) return has_tag(atomic->child, tag, seen);
    if (const auto* grammar = std::get_if<common_peg_gbnf_parser>(&parser)) return has_tag(grammar->child, tag, seen);
    if (const auto* ac = std::get_if<common_peg_ac_parser>(&parser)) return has_tag(ac->child, tag, seen);
    return false;
  }

  const common_peg_arena& arena_;
  std::set<common_peg_parser_id> open_;
  std::vector<Part> parts_;
  int optional_ = 0;
  bool has_name_ = false, in_id_ = false, in_value_close_ = false, in_call_close_ = false, ignored_ = false;
};

// The rule that reads calls: the trigger rule that contains the others.
std::vector<Part> parts_of_call(const common_peg_arena& arena) {
  std::vector<Part> longest;
  for (common_peg_parser_id id = 0; id < arena.size(); ++id) {
    const auto* rule = std::get_if<common_peg_rule_parser>(&arena.get(id));
    if (rule == nullptr || (!rule->trigger && rule->name != "tool-calls")) continue;
    std::vector<Part> parts = Flattener(arena).flatten(id);
    if (parts.size() > longest.size()) longest = std::move(parts);
  }
  return longest;
}

// optional: the depth of the parts that must be there.
HeadPart head_part(const Part& part, int optional) {
  const HeadPart::Kind kind = part.kind == Part::name         ? HeadPart::name
                              : part.kind == Part::until      ? HeadPart::until
                              : part.kind == Part::characters ? HeadPart::characters
                                                              : HeadPart::literal;
  return {kind, kind == HeadPart::literal ? trimmed(part.text) : part.text, part.optional > optional, part.is_id};
}

using Position = std::vector<Part>::const_iterator;

void read_json_object(CallForm& form, Position begin, Position name, Position arguments) {
  form.shape = CallShape::json_object;
  for (Position at = begin; at != name; ++at) {
    const std::string text = trimmed(at->text);
    if (text == "{" || text == "[{") break;
    if (at->kind == Part::literal && text != "[") add_once(form.openings, text);
  }
  const auto key_before = [&](Position end) {
    std::string key;
    for (Position at = begin; at != end; ++at) {
      const std::string text = trimmed(at->text);
      const bool is_key = at->kind == Part::literal && text.size() > 2 && text.front() == '"' && text.back() == '"';
      if (is_key && text != "\"type\"" && text != "\"function\"") key = text.substr(1, text.size() - 2);
    }
    return key;
  };
  form.name_key = key_before(name);
  form.arguments_key = key_before(arguments);
  if (form.arguments_key == form.name_key) form.arguments_key.clear();
}

void read_key_close(CallForm& form, const std::vector<Part>& parts, std::size_t key, std::size_t value) {
  std::string literals;
  for (std::size_t i = key + 1; i < value; ++i) {
    if (parts[i].kind == Part::literal) literals += parts[i].text;
    form.key_close.push_back(head_part(parts[i], parts[key].optional));
    if (form.key_close.back().text != "<![CDATA[") continue;
    form.key_close.back().is_optional = true;
    form.value_end = "]]>";
  }
  form.is_value_on_lines = !literals.empty() && literals.back() == '\n';
  const std::string yes = "string=\"true\"";
  for (std::size_t i = 0; i < form.key_close.size(); ++i) {
    const std::string text = form.key_close[i].text;
    const std::size_t at = text.find(yes);
    if (at == std::string::npos) continue;
    form.says_if_string = true;
    const std::string before = text.substr(0, at + 8), after = text.substr(at + yes.size() - 1);
    form.key_close[i].text = before;
    form.key_close.insert(form.key_close.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                          {{HeadPart::until, after}, {HeadPart::literal, after}});
    break;
  }
}

bool read_tags(CallForm& form, const std::vector<Part>& parts, std::size_t key) {
  std::size_t value = key;
  while (value < parts.size() && parts[value].kind != Part::text_value && parts[value].kind != Part::json_value)
    ++value;
  std::size_t close = value;
  for (; close < parts.size() && parts[close].kind != Part::value_close; ++close) {
    if (parts[close].kind == Part::literal) form.value_end = trimmed(parts[close].text);
  }
  if (close == parts.size() || key == 0 || parts[key - 1].kind != Part::literal) return false;
  form.shape = CallShape::tags;
  form.key_open = trimmed(parts[key - 1].text);
  read_key_close(form, parts, key, value);
  form.value_close = trimmed(parts[close].text);
  form.is_value_on_lines = form.is_value_on_lines && parts[close].text.front() == '\n';
  return !form.key_open.empty() && !form.value_close.empty() && !form.key_close.empty() &&
         form.value_close.find(probe_text) == std::string::npos;
}

// The openings are the literals at the beginning of a head that is written with the name in it.
void split_head(CallForm& form, const std::vector<Part>& parts, std::size_t name, std::size_t end) {
  for (std::size_t i = 0; i < end; ++i) {
    HeadPart part = head_part(parts[i], parts[name].optional);
    if (part.kind == HeadPart::literal && part.text.empty()) continue;
    const std::string id = probe_id;
    if (part.text.compare(0, id.size(), id) == 0) {
      part.text.erase(0, id.size());
      form.head.push_back({HeadPart::until, part.text, false, true});
    }
    form.head.push_back(std::move(part));
  }
  // The recipient of a message comes before the message.
  const std::string message = "<|message|>";
  for (std::size_t i = 0; i < form.head.size(); ++i) {
    if (form.head[i].text.compare(0, message.size(), message) != 0 || form.head[i].text == message) continue;
    form.head[i].text.erase(0, message.size());
    form.head.erase(form.head.begin(), form.head.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  // Mistral Small 3.2: a mark that llama.cpp expects both before and after the optional id.
  for (std::size_t i = 0; i + 1 < form.head.size(); ++i) {
    const auto is_same = [&](const HeadPart& other) {
      return other.kind == HeadPart::literal && other.text == form.head[i].text;
    };
    const auto rest = form.head.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    if (form.head[i].kind == HeadPart::literal && std::any_of(rest, form.head.end(), is_same))
      form.head.erase(form.head.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (form.head.size() > 1 && form.head.front().kind == HeadPart::literal &&
         form.head[1].kind == HeadPart::literal && !form.head.front().is_id) {
    form.openings.push_back(form.head.front().text);
    form.head.erase(form.head.begin());
  }
}

}  // namespace

const char* probe_tool() {
  static const std::string tool =
      std::string(R"([{"type": "function", "function": {"name": ")") + probe_name +
      R"(", "description": "A probe.", "parameters": {"type": "object", "properties": {")" + probe_text +
      R"(": {"type": "string"}, "number": {"type": "integer"}}, "required": [")" + probe_text + R"(", "number"]}}}])";
  return tool.c_str();
}

CallForm call_form(const common_chat_params& params) {
  CallForm form;
  if (params.parser.empty()) return form;
  common_peg_arena arena;
  arena.load(params.parser);
  const std::vector<Part> parts = parts_of_call(arena);
  const auto find = [&](Part::Kind kind) {
    return static_cast<std::size_t>(
        std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.kind == kind; }) - parts.begin());
  };
  const std::size_t name = find(Part::name), arguments = find(Part::json_arguments), key = find(Part::key);
  if (name == parts.size()) return form;
  form.shape = CallShape::other;
  const auto at = [&](std::size_t i) { return parts.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto is_brace = [](const Part& part) { return part.kind == Part::literal && trimmed(part.text) == "{"; };
  std::size_t last = name;
  if (params.format == COMMON_CHAT_FORMAT_PEG_GEMMA4) {
    form.shape = CallShape::gemma;
    form.head = {{HeadPart::literal, "<|tool_call>"}, {HeadPart::literal, "call:"}, {HeadPart::name, ""}};
    form.closings = {"<tool_call|>"};
  } else if (arguments < parts.size() && arguments < key && std::any_of(at(0), at(name), is_brace)) {
    read_json_object(form, at(0), at(name), at(arguments));
    last = arguments;
  } else if (arguments < parts.size() && arguments < key) {
    form.shape = CallShape::named_json;
    split_head(form, parts, name, arguments);
    last = arguments;
  } else if (key < parts.size() && params.format == COMMON_CHAT_FORMAT_PEG_NATIVE && read_tags(form, parts, key)) {
    split_head(form, parts, name, key - 1);
    last = key;
  } else {
    form = CallForm();
    form.shape = CallShape::other;
  }
  for (std::size_t i = last; i < parts.size() && form.shape != CallShape::gemma; ++i) {
    const std::string text = trimmed(parts[i].text);
    const bool is_close = parts[i].kind == Part::call_close || (parts[i].kind == Part::literal && i > last);
    const bool is_json = std::string("{}[],:\"").find(text.substr(0, 1)) != std::string::npos;
    // In the other form, marks of arguments stand between.
    const bool is_of_argument = text == form.key_open || text == form.value_end ||
                                std::any_of(form.key_close.begin(), form.key_close.end(),
                                            [&](const HeadPart& part) { return text == part.text; });
    if (is_close && !is_json && !is_of_argument) add_once(form.closings, text);
  }
  if (form.shape == CallShape::other) form.closings.clear();
  if (form.shape == CallShape::named_json && form.openings.empty() && form.head.front().kind == HeadPart::name)
    form.begins_answer = true;
  for (common_peg_parser_id id = 0; id < arena.size(); ++id) {
    const auto* tagged = std::get_if<common_peg_tag_parser>(&arena.get(id));
    if (tagged == nullptr || tagged->tag != common_chat_peg_builder::CONTENT) continue;
    const auto* until = std::get_if<common_peg_until_parser>(&arena.get(tagged->child));
    if (until == nullptr) continue;
    for (const std::string& mark : until->delimiters) {
      if (mark.find(probe_name) == std::string::npos) add_once(form.starts, trimmed(mark));
    }
  }
  if (form.begins_answer) form.openings = form.starts;
  return form;
}

ContentForm content_form(const common_chat_params& params) {
  ContentForm form;
  if (params.parser.empty()) return form;
  common_peg_arena arena;
  arena.load(params.parser);
  const auto resolve = [&](common_peg_parser_id id) {
    for (;;) {
      const common_peg_parser_variant& parser = arena.get(id);
      if (const auto* repetition = std::get_if<common_peg_repetition_parser>(&parser)) {
        if (repetition->max_count != 1) return id;
        id = repetition->child;
      } else if (const auto* rule = std::get_if<common_peg_rule_parser>(&parser)) {
        id = rule->child;
      } else if (const auto* reference = std::get_if<common_peg_ref_parser>(&parser)) {
        id = arena.get_rule(reference->name);
      } else {
        return id;
      }
    }
  };
  const auto literal = [&](common_peg_parser_id id) {
    const auto* parser = std::get_if<common_peg_literal_parser>(&arena.get(resolve(id)));
    return parser == nullptr ? std::string() : trimmed(parser->literal);
  };
  for (common_peg_parser_id id = 0; id < arena.size(); ++id) {
    const auto* sequence = std::get_if<common_peg_sequence_parser>(&arena.get(id));
    if (sequence == nullptr) continue;
    const std::vector<common_peg_parser_id>& children = sequence->children;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const auto* tagged = std::get_if<common_peg_tag_parser>(&arena.get(resolve(children[i])));
      if (tagged == nullptr || tagged->tag != common_chat_peg_builder::CONTENT) continue;
      const auto* until = std::get_if<common_peg_until_parser>(&arena.get(resolve(tagged->child)));
      const std::string before = i > 0 ? literal(children[i - 1]) : "";
      const std::string after = i + 1 < children.size() ? literal(children[i + 1]) : "";
      const bool ends_with_after = until != nullptr && !after.empty() &&
                                   std::any_of(until->delimiters.begin(), until->delimiters.end(),
                                               [&](const std::string& mark) { return trimmed(mark) == after; });
      // What the prompt ends with is no part of the answer.
      if (!before.empty() && params.generation_prompt.find(before) == std::string::npos) {
        const bool is_mark = before.find_first_of("<[|") != std::string::npos;
        add_once(form.begins, is_mark ? before : before + "\n");
      }
      if (ends_with_after) add_once(form.ends, after);
    }
  }
  return form;
}

}  // namespace specdec
