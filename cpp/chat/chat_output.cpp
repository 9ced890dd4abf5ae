#include "chat/chat_output.h"

#include <algorithm>
#include <exception>
#include <new>
#include <set>
#include <stdexcept>
#include <utility>
#include <variant>

#include "base/failed_assertions.h"
#include "chat-peg-parser.h"
#include "chat.h"
#include "chat/chat_template.h"
#include "chat/jinja_limits.h"
#include "chat/json_calls.h"

namespace specdec {
namespace {

// Enough for a few dozen renderings of short conversations and two of this one.
constexpr std::size_t base_steps = 50'000'000, steps_per_byte = 400;
constexpr std::size_t base_bytes = 1u << 30, bytes_per_byte = 8000;
constexpr std::size_t max_template_depth = 300;
constexpr int max_depth = 200;  // of brackets in an output: the parser recurses

// The depth of brackets, also inside strings.
int depth_of(const std::string& text) {
  int depth = 0, deepest = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    else if (c == ']' || c == '}') depth = std::max(0, depth - 1);
  }
  return deepest;
}

// A grammar of a required call, without the text that may come before the call: llama.cpp allows such text, and a model
// that would rather not call then writes it without end. The text is where root refers to a rule "until-..." outside
// parentheses (inside them is reasoning). Each such rule also matches nothing, so it can be left out.
std::string without_text_before_call(std::string grammar) {
  const std::string name = "root ::= ";
  const std::size_t line = grammar.compare(0, name.size(), name) == 0 ? 0 : grammar.find("\n" + name) + 1;
  std::size_t at = grammar.find(name, line);
  if (at == std::string::npos) return grammar;
  int depth = 0;
  for (at += name.size(); at < grammar.size() && grammar[at] != '\n';) {
    const char c = grammar[at];
    if (c == '"') {
      for (++at; at < grammar.size() && grammar[at] != '"'; ++at) at += grammar[at] == '\\' ? 1 : 0;
    }
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    const std::size_t end = std::min(grammar.find_first_of(" \n?*+", at), grammar.size());
    const std::string rule = grammar.substr(at, end - at);
    const bool is_text = depth == 0 && grammar[at - 1] == ' ' && rule.compare(0, 6, "until-") == 0 &&
                         grammar.find("\n" + rule + " ::= |") != std::string::npos;
    if (is_text) grammar.erase(at, end + (end < grammar.size() && grammar[end] == '?' ? 1 : 0) - at);
    else ++at;
  }
  return grammar;
}

// Appends to `sent` what `all` adds to it, and returns the addition.
std::string more(std::string& sent, const std::string& all) {
  if (all.size() <= sent.size() || all.compare(0, sent.size(), sent) != 0) return "";
  std::string added = all.substr(sent.size());
  sent += added;
  return added;
}

// The strings at which content and reasoning can end in llama.cpp's parser of an answer. They are known only if each
// part ends at such a string or with the answer.
struct Marks {
  std::vector<std::string> texts;
  bool are_known = true;
};

class MarkCollector {
 public:
  explicit MarkCollector(const common_peg_arena& arena) : arena_(arena) {}

  Marks collect() {
    for (common_peg_parser_id id = 0; id < arena_.size(); ++id) {
      const auto* tagged = std::get_if<common_peg_tag_parser>(&arena_.get(id));
      if (tagged == nullptr ||
          (tagged->tag != common_chat_peg_builder::CONTENT && tagged->tag != common_chat_peg_builder::REASONING))
        continue;
      seen_.clear();
      if (!has_end(tagged->child)) marks_.are_known = false;
    }
    return std::move(marks_);
  }

 private:
  // Collects the marks of the parser and its children. Returns whether it has any, or takes the rest of the text.
  bool has_end(common_peg_parser_id id) {
    if (!seen_.insert(id).second) return false;
    const common_peg_parser_variant& parser = arena_.get(id);
    if (const auto* until = std::get_if<common_peg_until_parser>(&parser)) {
      marks_.texts.insert(marks_.texts.end(), until->delimiters.begin(), until->delimiters.end());
      return true;
    }
    if (const auto* reference = std::get_if<common_peg_ref_parser>(&parser))
      return has_end(arena_.get_rule(reference->name));
    if (const auto* sequence = std::get_if<common_peg_sequence_parser>(&parser)) return any_has_end(sequence->children);
    if (const auto* choice = std::get_if<common_peg_choice_parser>(&parser)) return any_has_end(choice->children);
    if (const auto* repetition = std::get_if<common_peg_repetition_parser>(&parser)) return has_end(repetition->child);
    if (const auto* rule = std::get_if<common_peg_rule_parser>(&parser)) return has_end(rule->child);
    if (const auto* atomic = std::get_if<common_peg_atomic_parser>(&parser)) return has_end(atomic->child);
    if (const auto* tagged = std::get_if<common_peg_tag_parser>(&parser)) return has_end(tagged->child);
    if (const auto* grammar = std::get_if<common_peg_gbnf_parser>(&parser)) return has_end(grammar->child);
    return false;
  }
  bool any_has_end(const std::vector<common_peg_parser_id>& children) {
    bool any = false;
    for (const common_peg_parser_id child : children) any = has_end(child) || any;
    return any;
  }

  const common_peg_arena& arena_;
  std::set<common_peg_parser_id> seen_;
  Marks marks_;
};

ChatOutputParser::Reasoning reasoning_of(const std::string& begin, const std::string& end,
                                         const std::string& answer_start) {
  const auto trimmed = [](std::string text) {
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    return text;
  };
  ChatOutputParser::Reasoning reasoning{trimmed(begin), trimmed(end)};
  const std::size_t last = answer_start.rfind(reasoning.begin);
  reasoning.is_open = last != std::string::npos && answer_start.find(reasoning.end, last) == std::string::npos;
  return reasoning;
}

// Where the longest suffix of `text`, within bytes `from` and later, begins that is a prefix of `mark`.
std::size_t partial_mark(const std::string& text, std::size_t from, const std::string& mark) {
  std::size_t size = std::min(mark.size() - 1, text.size() - from);
  while (size > 0 && text.compare(text.size() - size, size, mark, 0, size) != 0) --size;
  return text.size() - size;
}

}  // namespace

std::string generation_prompt(const std::string& template_text, const Conversation& conversation,
                              const std::string& bos_token, const std::string& eos_token) {
  const JinjaTemplate jinja(template_text);
  TemplateVariables variables{conversation.messages, conversation.tools, true, bos_token, eos_token,
                              conversation.variables};
  const std::string with = jinja.render(variables).text;
  variables.add_generation_prompt = false;
  const std::string without = jinja.render(variables).text;
  const auto end = with.begin() + static_cast<std::ptrdiff_t>(std::min(with.size(), without.size()));
  return std::string(std::mismatch(with.begin(), end, without.begin()).first, with.end());
}

struct ChatOutputParser::Parser {
  bool is_understood = false;
  common_chat_parser_params params;
  std::vector<std::string> control_tokens;
  Grammar grammar;
  Reasoning reasoning;
  Marks marks;
  bool is_parallel = true;
  std::set<std::string> json_functions;  // functions that JSON may call
};

ChatOutputParser::ChatOutputParser(const std::string& template_text, const Conversation& conversation, ToolUse tool_use,
                                   const std::string& bos_token, const std::string& eos_token) {
  auto parser = std::make_unique<Parser>();
  bool has_form_of_calls = false;
  try {
    if (template_text.empty()) throw std::invalid_argument("no template");  // llama.cpp asserts that there is one
    const std::string answer_start = generation_prompt(template_text, conversation, bos_token, eos_token);
    const AbortsAsErrors guard;
    const std::size_t size = conversation.messages.size() + conversation.tools.size();
    jinja::limits limits;
    limits.steps = base_steps + steps_per_byte * size;
    limits.bytes = base_bytes + bytes_per_byte * size;
    limits.depth = max_template_depth;
    const Limited limited(limits);
    const common_chat_templates_ptr templates =
        common_chat_templates_init(nullptr, template_text, bos_token, eos_token);
    common_chat_templates_inputs inputs;
    inputs.messages = common_chat_msgs_parse_oaicompat(common_json::parse(conversation.messages));
    inputs.tools = common_chat_tools_parse_oaicompat(common_json::parse(conversation.tools));
    inputs.add_generation_prompt = conversation.add_generation_prompt;
    inputs.parallel_tool_calls = tool_use.is_parallel || !tool_use.is_required;  // further calls are dropped
    const common_json variables = common_json::parse(conversation.variables);    // the loop keeps a reference
    for (const auto& [name, value] : variables.items()) {
      if (name == "enable_thinking" && value.is_boolean()) inputs.enable_thinking = value.get<bool>();
      inputs.chat_template_kwargs[name] = value.dump();
    }
    if (tool_use.is_required) inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    inputs.reasoning_format = COMMON_REASONING_FORMAT_AUTO;
    // llama.cpp's prompts enable thinking by default; ours leave it to the template.
    common_chat_params found = common_chat_templates_apply(templates.get(), inputs);
    if (found.generation_prompt != answer_start) {
      inputs.enable_thinking = false;
      found = common_chat_templates_apply(templates.get(), inputs);
    }
    if (found.generation_prompt != answer_start)
      throw std::invalid_argument("the prompt is not as llama.cpp expects it");
    parser->params = common_chat_parser_params(found);
    parser->params.reasoning_format = inputs.reasoning_format;
    parser->params.parse_tool_calls = !inputs.tools.empty();
    if (!found.parser.empty()) parser->params.parser.load(found.parser);
    parser->marks = MarkCollector(parser->params.parser).collect();
    parser->control_tokens = found.preserved_tokens;
    if (found.supports_thinking && !found.thinking_start_tag.empty() && !found.thinking_end_tags.empty())
      parser->reasoning = reasoning_of(found.thinking_start_tag, found.thinking_end_tags.front(), answer_start);
    has_form_of_calls = !found.grammar.empty();
    if (tool_use.is_required && !found.grammar_lazy)
      parser->grammar = {without_text_before_call(found.grammar), answer_start};
    parser->is_understood = true;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {  // anything that llama.cpp's parsers throw at an odd template
    parser = std::make_unique<Parser>();
    has_form_of_calls = false;
  }
  parser->is_parallel = tool_use.is_parallel;
  if (tool_use.json == JsonCalls::always || (tool_use.json == JsonCalls::without_form && !has_form_of_calls))
    parser->json_functions = tool_names(conversation.tools);
  parser_ = std::move(parser);
}

ChatOutputParser::~ChatOutputParser() = default;
ChatOutputParser::ChatOutputParser(ChatOutputParser&&) noexcept = default;
ChatOutputParser& ChatOutputParser::operator=(ChatOutputParser&&) noexcept = default;

bool ChatOutputParser::understands_template() const { return parser_->is_understood; }
bool ChatOutputParser::reads_json_calls() const { return !parser_->json_functions.empty(); }
const std::vector<std::string>& ChatOutputParser::control_tokens() const { return parser_->control_tokens; }
const ChatOutputParser::Reasoning& ChatOutputParser::reasoning() const { return parser_->reasoning; }
const ChatOutputParser::Grammar& ChatOutputParser::grammar() const { return parser_->grammar; }

ChatOutputParser::PlainText ChatOutputParser::plain_text(const std::string& text, std::size_t from) const {
  const bool may_be_call = reads_json_calls() && start_of_json_calls(text) != std::string::npos;
  if (!parser_->marks.are_known || may_be_call) return {from, true};
  PlainText plain{text.size(), false};
  for (const std::string& mark : parser_->marks.texts) {
    if (mark.empty() || text.find(mark, from) != std::string::npos) return {from, true};
    plain.end = std::min(plain.end, partial_mark(text, from, mark));
  }
  return plain;
}

ChatOutputParser ChatOutputParser::after(const std::string& beginning) const {
  ChatOutputParser parser;
  parser.parser_ = parser_;
  parser.beginning_ = beginning;
  parser.begun_ = parse_whole(beginning, true);
  return parser;
}

ChatOutput ChatOutputParser::parse(const std::string& text, bool is_partial) const {
  if (beginning_.empty()) return parse_whole(text, is_partial);
  ChatOutput output = parse_whole(beginning_ + text, is_partial);
  for (std::string ChatOutput::* part : {&ChatOutput::content, &ChatOutput::reasoning_content}) {
    const std::string& begun = begun_.*part;
    if ((output.*part).compare(0, begun.size(), begun) != 0) return {text, "", {}, false};
    (output.*part).erase(0, begun.size());
  }
  return output;
}

ChatOutput ChatOutputParser::parse_whole(const std::string& text, bool is_partial) const {
  ChatOutput output = parse_by_template(text, is_partial);
  const bool may_be_json = reads_json_calls() && output.tool_calls.empty();
  const std::size_t start = may_be_json ? start_of_json_calls(output.content) : std::string::npos;
  if (start != std::string::npos && is_partial) {
    output.content.resize(start);
  } else if (start != std::string::npos) {
    if (auto calls = json_calls(output.content, parser_->json_functions)) {
      output.tool_calls = std::move(*calls);
      output.content.resize(start);
    }
  }
  output.is_over = !parser_->is_parallel && output.tool_calls.size() > 1;
  if (output.is_over) output.tool_calls.resize(1);
  return output;
}

ChatOutput ChatOutputParser::parse_by_template(const std::string& text, bool is_partial) const {
  ChatOutput output;
  output.content = text;
  if (!parser_->is_understood || depth_of(text) > max_depth) return output;
  try {
    const AbortsAsErrors guard;
    const common_chat_msg message = common_chat_parse(text, is_partial, parser_->params);
    output.content = message.content;
    output.reasoning_content = message.reasoning_content;
    for (const common_chat_tool_call& call : message.tool_calls)
      output.tool_calls.push_back({call.id, call.name, call.arguments});
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {  // the text does not fit the template
    output = {text, "", {}, false};
  }
  // For some malformed calls the parser returns nothing.
  const bool is_empty = output.content.empty() && output.reasoning_content.empty() && output.tool_calls.empty();
  if (!is_partial && is_empty) output.content = text;
  return output;
}

ChatOutputDelta ChatOutputStream::advance(const ChatOutput& output) {
  ChatOutputDelta delta;
  delta.content = more(sent_.content, output.content);
  delta.reasoning_content = more(sent_.reasoning_content, output.reasoning_content);
  for (std::size_t i = 0; i < output.tool_calls.size(); ++i) {
    const ToolCall& call = output.tool_calls[i];
    const bool is_new = i == sent_.tool_calls.size();
    if (is_new) sent_.tool_calls.push_back({call.id, call.name, ""});
    std::string arguments = more(sent_.tool_calls[i].arguments, call.arguments);
    if (is_new) delta.tool_calls.push_back({i, {call.id, call.name, std::move(arguments)}});
    else if (!arguments.empty()) delta.tool_calls.push_back({i, {"", "", std::move(arguments)}});
  }
  return delta;
}

ChatOutputDelta ChatOutputStream::append(std::string ChatOutput::* part, const std::string& added) {
  sent_.*part += added;
  ChatOutputDelta delta;
  (part == &ChatOutput::content ? delta.content : delta.reasoning_content) = added;
  return delta;
}

}  // namespace specdec
