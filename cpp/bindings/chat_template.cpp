// Chat templates without a model, for the tests.
#include "chat/chat_template.h"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "chat/chat_output.h"
#include "chat/jinja_template.h"

namespace py = pybind11;
using namespace py::literals;

namespace {

using Parts = std::vector<std::pair<py::str, bool>>;
using Call = std::tuple<std::string, std::string, std::string>;
using Output = std::tuple<py::str, py::str, std::vector<Call>>;

Parts parts_of(const specdec::MarkedText& marked) {
  Parts parts;
  std::size_t at = 0;
  const auto add = [&](std::size_t end, bool is_input) {
    if (end > at) parts.emplace_back(text_from_bytes(marked.text.substr(at, end - at)), is_input);
    at = end;
  };
  for (const auto& [begin, end] : marked.input) {
    add(begin, false);
    add(end, true);
  }
  add(marked.text.size(), false);
  return parts;
}

}  // namespace

void register_chat_template(py::module_& m) {
  m.def(
      "render_chat_template",
      [](const std::string& source, std::string messages, std::string tools, bool add_generation_prompt,
         std::string bos_token, std::string eos_token) {
        specdec::TemplateVariables variables;
        variables.messages = std::move(messages);
        variables.tools = std::move(tools);
        variables.add_generation_prompt = add_generation_prompt;
        variables.bos_token = std::move(bos_token);
        variables.eos_token = std::move(eos_token);
        specdec::MarkedText marked;
        {
          const WithoutGil without_gil;
          marked = specdec::JinjaTemplate(source).render(variables);
        }
        return parts_of(marked);
      },
      "source"_a, "messages"_a, "tools"_a, "add_generation_prompt"_a, "bos_token"_a, "eos_token"_a,
      "The output of a Jinja template in parts, each with whether it comes from messages or tools. messages and tools "
      "are JSON. RuntimeError if the template cannot be parsed, fails or exceeds a limit.");
  m.def(
      "parse_chat_outputs",
      [](const std::string& source, const std::string& messages, const std::string& tools,
         const std::vector<std::string>& texts) {
        const specdec::Conversation conversation{messages, tools, true};
        std::vector<specdec::ChatOutput> outputs;
        {
          const WithoutGil without_gil;
          const specdec::ChatOutputParser parser(source, conversation, specdec::ToolUse{});
          for (const std::string& text : texts) outputs.push_back(parser.parse(text, &text != &texts.back()));
        }
        std::vector<Output> list;
        for (const specdec::ChatOutput& output : outputs) {
          std::vector<Call> calls;
          for (const specdec::ToolCall& call : output.tool_calls)
            calls.emplace_back(call.id, call.name, call.arguments);
          list.emplace_back(text_from_bytes(output.content), text_from_bytes(output.reasoning_content),
                            std::move(calls));
        }
        return list;
      },
      "source"_a, "messages"_a, "tools"_a, "texts"_a,
      "(content, reasoning_content, [(id, name, arguments)]) of answers in the form of a template; all texts but the "
      "last are treated as beginnings.");
}
