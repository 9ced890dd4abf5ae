// Answers requests of tests/chat/test_call_arguments.py about required calls, a line of JSON each:
//   {"template": TEXT, "tools": [...], "messages": [...], "answers": [MESSAGE, ...]}
// -> {"error": TEXT}
//    {"has_grammar": false}   the template has no form of calls
//    {"ignored": [PLACE, ...],
//     "answers": [null or {"text": TEXT, "ends": [INDEX, ...]}, ...]}  how the template writes an answer, and the bytes
//     after which the grammar lets it end; null: the prompt is not how the conversation with the answer begins
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/chat_output.h"
#include "chat/chat_template.h"
#include "chat/jinja_template.h"
#include "chat/tool_schemas.h"
#include "constraints/constraint_compiler.h"
#include "engine/call_grammar.h"

namespace {

using namespace specdec;
using Json = nlohmann::ordered_json;

constexpr Token end = 256;  // tokens are bytes

std::vector<std::size_t> ends_of(const ConstraintCompiler& compiler, const CallGrammar& call, const std::string& text) {
  const std::unique_ptr<sampling::Constraint> constraint = compiler.call(call);
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    std::vector<std::uint32_t> mask((end + 32) / 32);
    constraint->write_mask(mask.data());
    const auto is_allowed = [&](Token token) {
      return (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
    };
    if (is_allowed(end)) ends.push_back(at);
    if (at == text.size()) break;
    const Token byte = static_cast<unsigned char>(text[at]);
    if (!is_allowed(byte) || !constraint->advance(byte)) break;
  }
  return ends;
}

Json answer_to(const Json& request) {
  const std::string source = request.at("template"), tools = request.at("tools").dump();
  const Conversation conversation{request.at("messages").dump(), tools};
  const ChatOutputParser parser(source, conversation, ToolUse{true, true});
  if (parser.grammar().text.empty()) return {{"has_grammar", false}};
  const Request::Call call = call_grammar(tool_schemas(tools), parser.grammar());
  std::vector<std::string> pieces;
  for (int byte = 0; byte < end; ++byte) pieces.emplace_back(byte == 0 ? 0 : 1, static_cast<char>(byte));
  pieces.emplace_back();
  const ConstraintCompiler compiler(pieces, {end});
  const JinjaTemplate jinja(source);
  TemplateVariables variables;
  variables.messages = conversation.messages;
  variables.tools = tools;
  const std::string prompt = jinja.render(variables).text;
  variables.add_generation_prompt = false;
  Json answers = Json::array();
  for (const Json& answer : request.at("answers")) {
    Json messages = request.at("messages");
    messages.push_back(answer);
    variables.messages = messages.dump();
    const std::string all = jinja.render(variables).text;
    const bool is_beginning = all.compare(0, prompt.size(), prompt) == 0;
    answers.push_back(nullptr);
    if (!is_beginning) continue;
    const std::string text = all.substr(prompt.size());
    answers.back() = {{"text", text}, {"ends", ends_of(compiler, call, text)}};
  }
  return {{"ignored", call.ignored}, {"answers", answers}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Json reply;
    try {
      reply = answer_to(Json::parse(line));
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump(-1, ' ', true, Json::error_handler_t::replace) << '\n' << std::flush;
  }
}
