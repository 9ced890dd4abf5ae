// The parts of an output that a stream sends: their sum is the output.
#include <string>

#include "check.h"
#include "llama/chat_output.h"
#include "llama/chat_template.h"

namespace {

using namespace specdec;

const std::string hermes =
    "{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content %}{{ message.content }}{%- endif %}{%- for call in message.tool_calls %}"
    "{{ '\\n<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}{{ call.function.arguments | tojson }}"
    "{{ '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}";
const Conversation question = {
    R"([{"role": "user", "content": "Weather?"}])",
    R"([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])"};

}  // namespace

TEST(the_sum_of_the_deltas_is_the_output) {
  const std::string call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
  const ChatOutputParser parser(hermes, question, true);
  CHECK(parser.understands_template());
  for (const std::string& text : {std::string("It is sunny, and 1 < 2."), call, "I look.\n" + call + "\n" + call}) {
    for (const std::size_t step : {1, 2, 7, 1000}) {
      ChatOutputStream stream;
      ChatOutput sum;
      for (std::size_t length = 0; length < text.size() + step; length += step) {
        const bool is_partial = length < text.size();
        const ChatOutputDelta delta = stream.advance(parser.parse(text.substr(0, length), is_partial));
        sum.content += delta.content;
        for (const ChatOutputDelta::Call& part : delta.tool_calls) {
          if (part.index == sum.tool_calls.size()) sum.tool_calls.push_back({part.added.id, part.added.name, ""});
          else CHECK(part.added.name.empty() && part.added.id.empty());
          sum.tool_calls.at(part.index).arguments += part.added.arguments;
        }
      }
      const ChatOutput whole = parser.parse(text, false);
      CHECK(sum.content == whole.content && sum.tool_calls.size() == whole.tool_calls.size());
      CHECK(stream.num_tool_calls() == whole.tool_calls.size());
      for (std::size_t i = 0; i < whole.tool_calls.size(); ++i) {
        CHECK(sum.tool_calls[i].name == "weather" && whole.tool_calls[i].name == "weather");
        CHECK(sum.tool_calls[i].arguments == whole.tool_calls[i].arguments);
        CHECK(whole.tool_calls[i].arguments.find("Paris") != std::string::npos);
      }
    }
  }
}

TEST(what_was_sent_stays_sent) {
  ChatOutputStream stream;
  CHECK(stream.advance({"Hello", "", {}}).content == "Hello");
  CHECK(stream.advance({"Hel", "", {}}).content.empty());
  CHECK(stream.advance({"Help", "", {}}).content.empty());
  CHECK(stream.advance({"Hello!", "", {}}).content == "!");
}

TEST(a_template_that_is_not_one) {
  const ChatOutputParser parser("{% if %}", question, true);
  CHECK(!parser.understands_template());
  CHECK(parser.parse("<tool_call>", false).content == "<tool_call>");
}

TEST_MAIN()
