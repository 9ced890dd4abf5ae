#include "bindings/chat_prompt.h"

#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/convert.h"
#include "bindings/register.h"
#include "bindings/without_gil.h"

namespace py = pybind11;
using namespace py::literals;

using Call = std::tuple<std::string, std::string, std::string>;
using Output = std::tuple<py::str, py::str, std::vector<Call>>;

void register_chat_prompt(py::module_& m) {
  py::class_<ChatPrompt>(m, "ChatPrompt",
                         "A conversation as a prompt, with the options of a request; made by Generator.chat().")
      .def_property_readonly(
          "tokens",
          [](const ChatPrompt& self) {
            if (!self.request.pictures.empty())
              throw std::invalid_argument("a conversation with pictures cannot be written as tokens alone");
            return self.request.prompt_tokens;
          },
          "The prompt.")
      .def(
          "parse",
          [](const ChatPrompt& self, const py::object& object, bool is_partial) {
            const std::string text = string_from("text", object);
            specdec::ChatOutput output;
            {
              const WithoutGil without_gil;
              if (self.parser)
                output = self.parser->parse(text, is_partial ? specdec::AnswerEnd::none : specdec::AnswerEnd::whole);
              else output.content = text;
            }
            std::vector<Call> calls;
            for (const specdec::ToolCall& call : output.tool_calls)
              calls.emplace_back(call.id, call.name, call.arguments);
            return Output(text_from_bytes(output.content), text_from_bytes(output.reasoning_content), std::move(calls));
          },
          "text"_a, "is_partial"_a,
          "(content, reasoning_content, [(id, name, arguments)]) of an answer, or with is_partial of its\n"
          "beginning. The id is \"\" if the model wrote none, as most do.");
}
