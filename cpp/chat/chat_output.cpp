#include "chat/chat_output.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <variant>

#include "base/failed_assertions.h"
#include "chat-peg-parser.h"
#include "chat.h"
#include "chat/answer_form.h"
#include "chat/answer_reader.h"
#include "chat/chat_template.h"
#include "chat/jinja_limits.h"
#include "chat/marks.h"

namespace specdec {
namespace {

// Enough for a few dozen renderings of short conversations and two of this one.
constexpr std::size_t parser_steps = 50'000'000, parser_steps_per_byte = 400;
constexpr std::size_t parser_bytes = 1u << 30, parser_bytes_per_byte = 8000;
constexpr std::size_t max_template_depth = 300;
constexpr int max_output_depth = 200;  // of brackets in an output: the parser recurses

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

// llama.cpp takes the id of its own probe for a part of the mark behind it (Solar Open).
std::string with_any_id(std::string grammar) {
  const std::string id = std::string("\"") + probe_id;
  for (std::size_t at; (at = grammar.find(id)) != std::string::npos;) grammar.replace(at, id.size(), "[a-z0-9]{9} \"");
  return grammar;
}
std::vector<std::string> without_ids(std::vector<std::string> marks) {
  const std::string id = probe_id;
  for (std::string& mark : marks) {
    if (mark.compare(0, id.size(), id) == 0) mark.erase(0, id.size());
  }
  return marks;
}

// The literal behind this one in a rule: a name.
std::string literal_behind(const std::string& rule, const std::string& before) {
  const std::size_t at = rule.find(before);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + before.size();
  std::size_t end = begin;
  while (end < rule.size() && rule[end] != '"') end += rule[end] == '\\' ? 2 : 1;
  return rule.substr(begin, end - begin);
}

// The alternatives "a | b" of a rule that are in no brackets and no literal.
std::vector<std::string> alternatives_of(const std::string& rule) {
  std::vector<std::string> parts = {""};
  int depth = 0;
  for (std::size_t i = 0; i < rule.size(); ++i) {
    const char c = rule[i];
    if (c == '"' || c == '[') {
      const char close = c == '"' ? '"' : ']';
      const std::size_t begin = i;
      for (++i; i < rule.size() && rule[i] != close; ++i) i += rule[i] == '\\' ? 1 : 0;
      parts.back() += rule.substr(begin, i + 1 - begin);
      continue;
    }
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth == 0 && rule.compare(i, 3, " | ") == 0) {
      parts.emplace_back();
      i += 2;
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// llama.cpp's grammar of MiniCPM 5's calls allows arguments in any order and number. Here they come in the order of the
// schema, and those that are required must come.
std::string with_required_arguments(std::string grammar, const std::string& tools) {
  const std::string begin = " space ((", end = ") space)* space \"</function>\"";
  std::map<std::string, std::set<std::string>> required;  // by function
  for (std::size_t close = 0; (close = grammar.find(end, close)) != std::string::npos; ++close) {
    const std::size_t line = grammar.rfind('\n', close) + 1, open = grammar.find(begin, line);
    if (open == std::string::npos || open > close) continue;
    if (required.empty()) required = required_arguments(tools);
    const std::string head = grammar.substr(line, open - line);
    const std::set<std::string>& names = required[literal_behind(head, "\"<function name=\\\"\" \"")];
    std::string arguments;
    const std::size_t from = open + begin.size();
    for (const std::string& one : alternatives_of(grammar.substr(from, close - from))) {
      const bool must_come = names.count(literal_behind(one, "\"<param name=\\\"\" \"")) != 0;
      arguments += must_come ? one + " space " : "(" + one + " space)? ";
    }
    grammar.replace(open, close + end.size() - open, " space " + arguments + "\"</function>\"");
  }
  return grammar;
}

// In llama.cpp's grammar of DeepSeek's calls, an argument that may be a string can be nothing else. JSON of its schema
// becomes the alternative: "string=\"true\">" until-6 "</parameter>" | ... "string=\"false\">" JSON "</parameter>".
std::string with_values_of_other_types(std::string grammar, MarkedTools& marked) {
  const std::string name = "name=\\\"\" \"", yes = "string=\\\"true\\\">\") ", no = "string=\\\"false\\\">\") \"";
  for (std::size_t at = 0; (at = grammar.find(yes, at)) != std::string::npos; ++at) {
    const std::size_t line = grammar.rfind('\n', at) + 1, end = std::min(grammar.find('\n', at), grammar.size());
    const std::string rule = grammar.substr(line, end - line), id = rule.substr(0, rule.find(' '));
    const std::size_t body = rule.find("::= ") + 4, value = at - line + yes.size();
    const std::size_t close = rule.find(' ', value);
    const std::size_t user = grammar.find(" " + id + " ");  // the rule of the function
    if (close == std::string::npos || user == std::string::npos) continue;
    const std::size_t function = grammar.rfind('\n', user) + 1;
    const auto mixed = marked.mixed.find(
        {literal_behind(grammar.substr(function, user - function), name), literal_behind(rule, name)});
    if (mixed == marked.mixed.end()) continue;
    const std::string other = rule.substr(body, at - line - body) + no + mixed->second.text + "\"" + rule.substr(close);
    marked.marks.push_back(mixed->second);
    marked.mixed.erase(mixed);
    grammar.insert(end, " | " + other);
  }
  return grammar;
}

ChatOutputParser::Reasoning reasoning_of(const std::string& begin, const std::string& end,
                                         const std::string& answer_start) {
  ChatOutputParser::Reasoning reasoning{trimmed(begin), trimmed(end)};
  const std::size_t last = answer_start.rfind(reasoning.begin);
  reasoning.is_open = last != std::string::npos && answer_start.find(reasoning.end, last) == std::string::npos;
  return reasoning;
}

// The rule that reads calls: among those that begin a lazy grammar, the one that contains the others.
common_peg_parser_id rule_of_calls(const common_peg_arena& arena) {
  common_peg_parser_id found = COMMON_PEG_INVALID_PARSER_ID;
  for (common_peg_parser_id id = 0; id < arena.size(); ++id) {
    const auto* rule = std::get_if<common_peg_rule_parser>(&arena.get(id));
    if (rule != nullptr && (rule->trigger || rule->name == "tool-calls")) found = id;
  }
  return found;
}

// Reads calls of a form that only llama.cpp knows.
AnswerForm::OtherCalls read_by_rule(const common_peg_arena& arena, common_peg_parser_id rule, common_chat_format format,
                                    const std::string& text, std::size_t at, bool is_end) {
  AnswerForm::OtherCalls read;
  if (depth_of(text) > max_output_depth) return read;
  try {
    const AbortsAsErrors guard;
    common_peg_parse_context context(text, is_end ? COMMON_PEG_PARSE_FLAG_NONE : COMMON_PEG_PARSE_FLAG_LENIENT);
    const common_peg_parse_result result = arena.parse(rule, context, at);
    const bool may_go_on = result.need_more_input() || (result.success() && result.end == text.size());
    if (!is_end && may_go_on) read.reading = AnswerForm::Reading::unfinished;
    if (!result.success() || read.reading == AnswerForm::Reading::unfinished) return read;
    common_chat_msg message;
    if (format == COMMON_CHAT_FORMAT_PEG_MINIMAX_M3)
      common_chat_peg_minimax_m3_mapper(message).from_ast(context.ast, result);
    else common_chat_peg_mapper(message).from_ast(context.ast, result);
    for (const common_chat_tool_call& call : message.tool_calls)
      read.calls.push_back({call.id, call.name, call.arguments});
    read.end = result.end;
    if (!read.calls.empty()) read.reading = AnswerForm::Reading::calls;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {  // the text does not fit the template
    read = {};
  }
  return read;
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
  bool is_understood = false, writes_calls = false;
  std::vector<std::string> control_tokens;
  Grammar grammar;
  Reasoning reasoning;
  std::shared_ptr<const AnswerForm> form;
};

namespace {

// What llama.cpp derives from a template for one conversation.
class Derivation {
 public:
  Derivation(const std::string& template_text, const Conversation& conversation, const std::string& bos_token,
             const std::string& eos_token)
      : answer_start_(generation_prompt(template_text, conversation, bos_token, eos_token)) {
    templates_ = common_chat_templates_init(nullptr, template_text, bos_token, eos_token);
    inputs_.messages = common_chat_msgs_parse_oaicompat(common_json::parse(conversation.messages));
    inputs_.add_generation_prompt = conversation.add_generation_prompt;
    const common_json variables = common_json::parse(conversation.variables);  // the loop keeps a reference
    for (const auto& [name, value] : variables.items()) {
      if (name == "enable_thinking" && value.is_boolean()) inputs_.enable_thinking = value.get<bool>();
      inputs_.chat_template_kwargs[name] = value.dump();
    }
    inputs_.reasoning_format = COMMON_REASONING_FORMAT_AUTO;
  }

  const std::string& answer_start() const { return answer_start_; }

  // llama.cpp's prompts turn thinking on or off; ours leave it to the template. Where that is a third kind of prompt
  // (MiniCPM 5), or llama.cpp does not find the end of its prompt, the grammar of a call has no reasoning before it.
  common_chat_params apply(const std::string& tools, bool is_parallel, bool is_required) {
    inputs_.tools = common_chat_tools_parse_oaicompat(common_json::parse(tools));
    inputs_.parallel_tool_calls = is_parallel;
    inputs_.tool_choice = is_required ? COMMON_CHAT_TOOL_CHOICE_REQUIRED : COMMON_CHAT_TOOL_CHOICE_AUTO;
    inputs_.reasoning_format = COMMON_REASONING_FORMAT_AUTO;
    const bool enables_thinking = inputs_.enable_thinking;
    for (const bool enable : {enables_thinking, false}) {
      inputs_.enable_thinking = enable;
      common_chat_params found = common_chat_templates_apply(templates_.get(), inputs_);
      if (found.generation_prompt == answer_start_) return found;
    }
    inputs_.enable_thinking = enables_thinking;
    if (is_required) inputs_.reasoning_format = COMMON_REASONING_FORMAT_NONE;
    return common_chat_templates_apply(templates_.get(), inputs_);
  }

  // The part of the prompt that such a parser's grammar begins with; nullopt if it is not ours.
  std::optional<std::string> prefix(const common_chat_params& found) const {
    const std::string& theirs = found.generation_prompt;
    if (theirs.empty()) return "";
    if (theirs.compare(0, answer_start_.size(), answer_start_) != 0) return std::nullopt;
    return answer_start_;
  }

 private:
  const std::string answer_start_;
  common_chat_templates_ptr templates_;
  common_chat_templates_inputs inputs_;
};

CallForm form_with_tools(Derivation& derivation) {
  try {
    return call_form(derivation.apply(probe_tool(), true, false));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {  // a template for conversations without tools
    return {};
  }
}

// Where the grammar cannot have a mark for all arguments of a function, each argument has one.
ChatOutputParser::Grammar grammar_of_calls(Derivation& derivation, const std::string& tools, const CallForm& form,
                                           bool is_parallel) {
  const MarkedPart smaller = form.shape == CallShape::other ? MarkedPart::each_leaf : MarkedPart::each_argument;
  for (const MarkedPart part : {MarkedPart::arguments, smaller}) {
    MarkedTools marked = with_marks(tools, part);
    const common_chat_params found = derivation.apply(marked.tools, is_parallel, true);
    const std::optional<std::string> prefix = derivation.prefix(found);
    if (found.grammar_lazy || !prefix) return {};
    const auto is_missing = [&](const SchemaMark& mark) {
      return found.grammar.find('"' + mark.text + '"') == std::string::npos;
    };
    const auto missing = std::stable_partition(marked.marks.begin(), marked.marks.end(), std::not_fn(is_missing));
    if (part == MarkedPart::arguments && missing != marked.marks.end()) continue;
    for (auto mark = missing; mark != marked.marks.end(); ++mark) marked.ignored.push_back(mark->pointer);
    marked.marks.erase(missing, marked.marks.end());
    std::string any_number = without_text_before_call(found.grammar);
    if (form.says_if_string) any_number = with_values_of_other_types(any_number, marked);
    const std::string grammar = with_required_arguments(any_number, tools);
    // Where a grammar does not depend on which arguments are required, none must come.
    const bool may_lack = part != MarkedPart::arguments && grammar == any_number &&
                          derivation.apply(without_required(marked.tools), is_parallel, true).grammar == found.grammar;
    if (may_lack) {
      std::map<std::string, std::set<std::string>> required = required_arguments(tools);
      const std::vector<std::string> names = tool_schemas(tools).names;
      for (std::size_t tool = 0; tool < names.size(); ++tool)
        if (!required[names[tool]].empty()) marked.ignored.push_back(ToolSchemas::pointer(tool) + "/required");
    }
    return {with_any_id(grammar), *prefix, std::move(marked.marks), std::move(marked.ignored)};
  }
  return {};
}

// The marks of reasoning and content. calls: how the template writes calls, also where there are no tools: reasoning
// does not end at a mark of theirs.
void read_form(AnswerForm& form, const common_chat_params& params, const CallForm& calls) {
  form.content = content_form(params);
  const std::string channel = "<|channel|>", message = "<|message|>";
  const auto writes = [&](const std::string& mark) {
    return std::find(params.preserved_tokens.begin(), params.preserved_tokens.end(), mark) !=
           params.preserved_tokens.end();
  };
  form.has_messages = writes(message);
  if (form.has_messages) {
    form.content = {};
    if (writes(channel)) form.calls = {};  // its headers say what is a call
    return;
  }
  form.may_reason_later = params.format == COMMON_CHAT_FORMAT_PEG_GEMMA4;
  if (!params.supports_thinking) return;
  form.reasoning_begin = trimmed(params.thinking_start_tag);
  for (const std::string& end : params.thinking_end_tags) {
    const std::string mark = trimmed(end);
    const auto is_mark = [&](const std::string& start) { return start == mark; };
    const std::vector<std::string>& starts = calls.shape == CallShape::other ? calls.starts : calls.openings;
    const bool is_call =
        std::any_of(starts.begin(), starts.end(), is_mark) || (!calls.head.empty() && is_mark(calls.head.front().text));
    const bool is_known =
        std::find(form.reasoning_ends.begin(), form.reasoning_ends.end(), mark) != form.reasoning_ends.end();
    if (!mark.empty() && !is_call && !is_known) form.reasoning_ends.push_back(mark);
  }
  if (form.reasoning_ends.empty()) form.reasoning_begin.clear();
}

// Solar Open writes its turn in parts, <|think|>text<|end|><|begin|>assistant<|content|>text<|end|>, of which llama.cpp
// finds only the calls.
bool writes_solar_parts(const std::string& template_text) {
  return template_text.find("<|begin|>assistant<|think|>") != std::string::npos;
}
void read_solar_parts(AnswerForm& form, ChatOutputParser::Reasoning& reasoning, std::vector<std::string>& tokens) {
  reasoning = {"<|think|>", "<|end|>", false};
  form.reasoning_begin = reasoning.begin;
  form.reasoning_ends = form.content.ends = {reasoning.end};
  form.content.begins = {"<|begin|>assistant<|content|>", "<|content|>"};
  std::vector<std::string>& openings = form.calls.openings;
  if (!openings.empty()) openings.insert(openings.begin(), "<|begin|>assistant");
  for (const char* token : {"<|think|>", "<|end|>", "<|begin|>", "<|content|>"}) {
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.emplace_back(token);
  }
}

}  // namespace

ChatOutputParser::ChatOutputParser(const std::string& template_text, const Conversation& conversation, ToolUse tool_use,
                                   const std::string& bos_token, const std::string& eos_token) {
  auto parser = std::make_unique<Parser>();
  auto form = std::make_shared<AnswerForm>();
  const auto read_functions = [&] {
    form->functions = argument_types(conversation.tools);
    form->is_parallel = tool_use.is_parallel;
  };
  read_functions();
  const bool has_tools = !form->functions.empty();
  try {
    if (template_text.empty()) throw std::invalid_argument("no template");  // llama.cpp asserts that there is one
    const AbortsAsErrors guard;
    const std::size_t size = conversation.messages.size() + conversation.tools.size();
    jinja::limits limits;
    limits.steps = parser_steps + parser_steps_per_byte * size;
    limits.bytes = parser_bytes + parser_bytes_per_byte * size;
    limits.depth = max_template_depth;
    const Limited limited(limits);
    Derivation derivation(template_text, conversation, bos_token, eos_token);
    const common_chat_params probed = derivation.apply(has_tools ? probe_tool() : "null", true, false);
    if (has_tools) form->calls = call_form(probed);
    parser->writes_calls = form->calls.shape != CallShape::none;
    const bool may_end_at_calls = !has_tools && probed.thinking_end_tags.size() > 1;
    read_form(*form, probed, may_end_at_calls ? form_with_tools(derivation) : CallForm(form->calls));
    parser->control_tokens = without_ids(probed.preserved_tokens);
    if (probed.supports_thinking && !probed.thinking_start_tag.empty() && !probed.thinking_end_tags.empty())
      parser->reasoning =
          reasoning_of(probed.thinking_start_tag, probed.thinking_end_tags.front(), derivation.answer_start());
    if (writes_solar_parts(template_text)) read_solar_parts(*form, parser->reasoning, parser->control_tokens);
    form->is_reasoning_open = parser->reasoning.is_open;
    if (parser->writes_calls && tool_use.is_required)
      parser->grammar = grammar_of_calls(derivation, conversation.tools, form->calls, tool_use.is_parallel);
    if (form->calls.shape == CallShape::other) {
      const common_chat_params found = derivation.apply(with_types_only(conversation.tools), true, false);
      common_peg_arena arena;
      arena.load(found.parser);
      const common_peg_parser_id rule = rule_of_calls(arena);
      if (rule == COMMON_PEG_INVALID_PARSER_ID) throw std::invalid_argument("the parser has no calls");
      form->read_other = [arena, rule, format = found.format](const std::string& text, std::size_t at, bool is_end) {
        return read_by_rule(arena, rule, format, text, at, is_end);
      };
    }
    parser->is_understood = true;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {  // anything that llama.cpp's parsers throw at an odd template
    parser = std::make_unique<Parser>();
    form = std::make_shared<AnswerForm>();
    read_functions();
  }
  form->reads_json_calls = has_tools && tool_use.json == JsonCalls::without_others;
  parser->form = std::move(form);
  parser_ = std::move(parser);
}

ChatOutputParser::~ChatOutputParser() = default;
ChatOutputParser::ChatOutputParser(ChatOutputParser&&) noexcept = default;
ChatOutputParser& ChatOutputParser::operator=(ChatOutputParser&&) noexcept = default;

bool ChatOutputParser::understands_template() const { return parser_->is_understood; }
bool ChatOutputParser::writes_calls() const { return parser_->writes_calls; }
bool ChatOutputParser::reads_json_calls() const { return parser_->form->reads_json_calls; }
const std::vector<std::string>& ChatOutputParser::control_tokens() const { return parser_->control_tokens; }
const ChatOutputParser::Reasoning& ChatOutputParser::reasoning() const { return parser_->reasoning; }
const ChatOutputParser::Grammar& ChatOutputParser::grammar() const { return parser_->grammar; }

ChatOutputParser ChatOutputParser::after(const std::string& beginning) const {
  ChatOutputParser parser;
  parser.parser_ = parser_;
  parser.beginning_ = beginning;
  return parser;
}

AnswerReader ChatOutputParser::reader() const {
  AnswerReader reader(parser_->form);
  if (beginning_.empty()) return reader;
  reader.add(beginning_, AnswerEnd::none);
  reader.leave_out_begun();
  return reader;
}

ChatOutput ChatOutputParser::parse(const std::string& text, AnswerEnd end) const {
  AnswerReader answer = reader();
  answer.add(text, end);
  return answer.output();
}

ChatOutputDelta ChatOutputStream::advance(const ChatOutput& output) {
  const auto more = [](std::size_t& sent, const std::string& all) {
    std::string added = all.substr(std::min(sent, all.size()));
    sent = std::max(sent, all.size());
    return added;
  };
  ChatOutputDelta delta;
  delta.content = more(content_, output.content);
  delta.reasoning_content = more(reasoning_, output.reasoning_content);
  for (std::size_t i = 0; i < output.tool_calls.size(); ++i) {
    const ToolCall& call = output.tool_calls[i];
    const bool is_new = i == sent_.size();
    if (is_new) sent_.push_back(0);
    std::string arguments = more(sent_[i], call.arguments);
    if (is_new) delta.tool_calls.push_back({i, {call.id, call.name, std::move(arguments)}});
    else if (!arguments.empty()) delta.tool_calls.push_back({i, {"", "", std::move(arguments)}});
  }
  return delta;
}

}  // namespace specdec
