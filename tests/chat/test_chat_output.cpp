// The parts of an output that a stream sends: their sum is the output.
#include <string>

#include "chat/chat_output.h"
#include "chat/chat_output_parsers.h"
#include "chat/chat_template.h"
#include "check.h"

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
  const ChatOutputParser parser(hermes, question, {});
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

TEST(the_grammar_of_a_required_call) {
  const ChatOutputParser parser(hermes, question, ToolUse{true, true});
  const std::string& grammar = parser.grammar().text;
  CHECK(parser.grammar().prefix == "<|im_start|>assistant\n");
  const std::size_t root = grammar.find("root ::= ");
  CHECK(root != std::string::npos && grammar.find("<tool_call>") != std::string::npos);
  CHECK(grammar.substr(root, grammar.find('\n', root) - root).find("until-") == std::string::npos);  // no text before it
  CHECK(ChatOutputParser(hermes, question, ToolUse{true, false}).grammar().text.empty());
}

TEST(what_was_sent_stays_sent) {
  ChatOutputStream stream;
  CHECK(stream.advance({"Hello", "", {}}).content == "Hello");
  CHECK(stream.advance({"Hel", "", {}}).content.empty());
  CHECK(stream.advance({"Help", "", {}}).content.empty());
  CHECK(stream.advance({"Hello!", "", {}}).content == "!");
}

TEST(a_template_that_is_not_one) {
  const ChatOutputParser parser("{% if %}", question, {});
  CHECK(!parser.understands_template());
  CHECK(parser.parse("<tool_call>", false).content == "<tool_call>");
}

TEST(parsers_are_kept) {
  ChatOutputParsers parsers;
  const auto get = [&](const Conversation& conversation, ToolUse use = {}) { return parsers.get(hermes, conversation, use, "", ""); };
  const auto with_tool = [](const std::string& name, const std::string& description = "") {
    return Conversation{question.messages, R"([{"type": "function", "function": {"name": ")" + name + R"(", "description": ")" +
                                               description + R"(", "parameters": {"type": "object"}}}])"};
  };
  const auto first = get(question);
  CHECK(first && first->understands_template());
  Conversation other = question;
  other.messages = R"([{"role": "user", "content": "And tomorrow?"}])";
  CHECK(get(other) == first);  // the tools are the same
  CHECK(get(question, {true, true}) != first && get(question, {false, false}) != first);
  CHECK(parsers.get(hermes + " ", question, {}, "", "") != first);
  CHECK(parsers.get("{% if %}", question, {}, "", "") == nullptr);
  other.tools = "null";
  CHECK(get(other) != first);

  for (int i = 0; i < 20; ++i) {  // more than are kept; the first is used meanwhile
    const std::string name = "f" + std::to_string(i);
    const ChatOutput output =
        get(with_tool(name))->parse("<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": {}}\n</tool_call>", false);
    CHECK(output.tool_calls.size() == 1 && output.tool_calls[0].name == name);
    CHECK(get(question) == first);
  }
  const std::weak_ptr<const ChatOutputParser> last = get(with_tool("f19")), forgotten = get(with_tool("f0"));
  CHECK(!last.expired() && !forgotten.expired());
  for (int i = 0; i < 16; ++i) (void)get(with_tool("g" + std::to_string(i)));
  CHECK(last.expired() && forgotten.expired());
  const std::weak_ptr<const ChatOutputParser> large = get(with_tool("f", std::string(300000, 'x')));  // too large to keep
  CHECK(large.expired());
}

TEST_MAIN()
