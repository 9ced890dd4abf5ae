// Chat templates without a model, for the tests.
#include "chat/chat_template.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/register.h"
#include "bindings/without_gil.h"
#include "chat/chat_output.h"
#include "chat/chat_output_reader.h"
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

// What an answer's deltas add up to when it comes in pieces of `step` bytes.
specdec::ChatOutput sum_of_deltas(const std::shared_ptr<const specdec::ChatOutputParser>& parser,
                                  const std::string& text, std::size_t step, specdec::AnswerEnd end) {
  specdec::ChatOutputReader reader(parser);
  specdec::ChatOutput sum;
  for (std::size_t at = 0; at == 0 || at < text.size(); at += step) {
    const bool is_last = at + step >= text.size();
    const specdec::ChatOutputDelta delta = reader.add(text.substr(at, step), is_last ? end : specdec::AnswerEnd::none);
    sum.content += delta.content;
    sum.reasoning_content += delta.reasoning_content;
    for (const auto& [index, added] : delta.tool_calls) {
      if (index == sum.tool_calls.size()) sum.tool_calls.push_back({added.id, added.name, ""});
      sum.tool_calls.at(index).arguments += added.arguments;
    }
  }
  return sum;
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
      "The output of a Jinja template in parts, each with whether it comes from messages or tools. messages and\n"
      "tools are JSON. RuntimeError if the template cannot be parsed, fails or exceeds a limit.");
  m.def(
      "parse_chat_outputs",
      [](const std::string& source, const std::string& messages, const std::string& tools,
         const std::vector<std::string>& texts, std::size_t step, bool is_cut) {
        using specdec::AnswerEnd;
        const specdec::Conversation conversation{messages, tools, true};
        const AnswerEnd last = is_cut ? AnswerEnd::cut : AnswerEnd::whole;
        std::vector<specdec::ChatOutput> outputs;
        {
          const WithoutGil without_gil;
          const auto parser =
              std::make_shared<const specdec::ChatOutputParser>(source, conversation, specdec::ToolUse{});
          for (const std::string& text : texts) {
            if (step > 0) outputs.push_back(sum_of_deltas(parser, text, step, last));
            else outputs.push_back(parser->parse(text, &text != &texts.back() ? AnswerEnd::none : last));
          }
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
      "source"_a, "messages"_a, "tools"_a, "texts"_a, "step"_a = 0, "is_cut"_a = false,
      "(content, reasoning_content, [(id, name, arguments)]) of answers in the form of a template; all texts but\n"
      "the last are treated as beginnings. With a step, all texts are whole answers, read in pieces of that many\n"
      "bytes, and the outputs are the sums of what each piece adds. is_cut: the answers were cut off.");
}
