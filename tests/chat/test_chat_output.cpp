// The parts of an output that a stream sends: their sum is the output.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "chat/chat_output.h"
#include "chat/chat_output_parsers.h"
#include "chat/chat_output_reader.h"
#include "chat/chat_template.h"
#include "check.h"

namespace {

using namespace specdec;

const std::string hermes =
    "{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}{%- for message in messages %}{{ '<|im_start|>' + "
    "message.role + '\\n' }}"
    "{%- if message.content %}{{ message.content }}{%- endif %}{%- for call in message.tool_calls %}"
    "{{ '\\n<tool_call>\\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}{{ call.function.arguments | "
    "tojson }}"
    "{{ '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}";
const Conversation question = {R"([{"role": "user", "content": "Weather?"}])",
                               R"([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}}}}}])"};

// The same with reasoning, which the answer begins with.
const std::string reasoning = [] {
  std::string text = hermes;
  text.insert(text.find("{%- if message.content %}"),
              "{%- if message.reasoning_content %}{{ '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' "
              "}}{%- endif %}");
  return text;
}();

bool same(const ChatOutput& a, const ChatOutput& b) {
  bool calls_are_same = a.tool_calls.size() == b.tool_calls.size();
  for (std::size_t i = 0; calls_are_same && i < a.tool_calls.size(); ++i) {
    calls_are_same =
        a.tool_calls[i].name == b.tool_calls[i].name && a.tool_calls[i].arguments == b.tool_calls[i].arguments;
  }
  return calls_are_same && a.content == b.content && a.reasoning_content == b.reasoning_content;
}

void add(ChatOutput& sum, const ChatOutputDelta& delta) {
  sum.content += delta.content;
  sum.reasoning_content += delta.reasoning_content;
  for (const ChatOutputDelta::Call& part : delta.tool_calls) {
    if (part.index == sum.tool_calls.size()) sum.tool_calls.push_back({part.added.id, part.added.name, ""});
    sum.tool_calls.at(part.index).arguments += part.added.arguments;
  }
}

// An answer of `num_tokens` tokens of four bytes.
std::string repeated(const std::string& line, std::size_t num_tokens) {
  std::string text;
  while (text.size() < 4 * num_tokens) text += line;
  return text;
}

struct Cost {
  std::size_t bytes_read, most_held;  // most_held: bytes of text that came between two deltas
};

// Reads the answer token by token; checks that the deltas are the parsed whole.
Cost read(const std::shared_ptr<const ChatOutputParser>& parser, const std::string& answer) {
  ChatOutputReader reader(parser);
  ChatOutput sum;
  Cost cost{};
  std::size_t held = 0;
  for (std::size_t at = 0; at < answer.size(); at += 4) {
    const ChatOutputDelta delta =
        reader.add(answer.substr(at, 4), at + 4 >= answer.size() ? AnswerEnd::whole : AnswerEnd::none);
    const bool is_empty = delta.content.empty() && delta.reasoning_content.empty() && delta.tool_calls.empty();
    held = is_empty ? held + 4 : 0;
    cost.most_held = std::max(cost.most_held, held);
    add(sum, delta);
  }
  CHECK(same(sum, parser->parse(answer, AnswerEnd::whole)) && same(reader.output(), sum));
  cost.bytes_read = reader.num_bytes_read();
  return cost;
}

}  // namespace

TEST(a_reader_gives_at_every_token_what_parsing_all_of_it_gives) {
  const std::vector<std::string> parts = {"It is",
                                          " sunny",
                                          ".\n",
                                          "<",
                                          "tool_call",
                                          ">",
                                          "<tool_call>",
                                          "\n",
                                          "<tool",
                                          "_call>\n",
                                          "{\"name\"",
                                          "aris\"}}",
                                          "</tool_call>",
                                          "<think>",
                                          "</think>",
                                          "</thi",
                                          "nk>",
                                          "\n\n",
                                          " 1 < 2",
                                          "[{",
                                          "}",
                                          "It will be sunny tomorrow in Paris, and also on the day after tomorrow. ",
                                          "And what is more: there will be no rain for the whole week, and no wind.",
                                          "Warm",
                                          "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"P",
                                          "aris\"}}\n</tool_call>"};
  int num_calls = 0, num_reasoning = 0;
  for (const std::string& source : {hermes, reasoning}) {
    const auto parser = std::make_shared<const ChatOutputParser>(source, question, ToolUse{});
    CHECK(parser->understands_template());
    for (unsigned seed = 0; seed < 2000; ++seed) {
      std::mt19937 random(seed);
      ChatOutputReader reader(parser);
      ChatOutputStream stream;
      std::string text = source == reasoning && seed % 2 == 0 ? "<think>\n" : "";
      CHECK(same(reader.output(), {}));
      ChatOutput sum, expected;
      add(sum, reader.add(text, AnswerEnd::none));
      add(expected, stream.advance(parser->parse(text, AnswerEnd::none)));
      for (int i = 0; i < 16; ++i) {
        const std::string& part = parts[random() % parts.size()];
        text += part;
        add(sum, reader.add(part, AnswerEnd::none));
        add(expected, stream.advance(parser->parse(text, AnswerEnd::none)));
        if (!same(sum, expected))
          throw check::Failure("seed " + std::to_string(seed) + ": " + text + "\nis: " + sum.content + "|" +
                               sum.reasoning_content + "\nexpected: " + expected.content + "|" +
                               expected.reasoning_content);
      }
      for (const AnswerEnd end : {AnswerEnd::cut, AnswerEnd::whole}) {
        ChatOutputReader last = reader;
        last.add("!", end);
        CHECK(same(last.output(), parser->parse(text + "!", end)));
      }
      num_calls += expected.tool_calls.empty() ? 0 : 1;
      num_reasoning += expected.reasoning_content.empty() ? 0 : 1;
    }
  }
  std::printf("%d with calls, %d with reasoning\n", num_calls, num_reasoning);
  CHECK(num_calls > 100 && num_reasoning > 500);
}

TEST(the_bytes_parsed_grow_with_the_answer_not_with_its_square) {
  const auto parser = std::make_shared<const ChatOutputParser>(reasoning, question, ToolUse{});
  for (const std::size_t num_tokens : {1000u, 4000u, 16000u}) {
    const std::string code = repeated("if (a < b && x[i] > {0}) return \"<tool\";\n", num_tokens);
    const Cost content = read(parser, code);
    const Cost thinking = read(parser, "<think>\n" + code + "</think>\n\nYes.");
    const Cost call = read(parser, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"" +
                                       repeated("Saint-\\\"Denis\\\", ", num_tokens) + "\"}}\n</tool_call>");
    const std::size_t size = code.size();
    CHECK(content.bytes_read < 3 * size && content.most_held <= 12);
    CHECK(thinking.bytes_read < 5 * size && thinking.most_held <= 24);
    CHECK(call.bytes_read < 70 * size + (64u << 10) && call.most_held <= size / 32 + 64);
    std::printf(
        "%zu tokens: %.2f bytes parsed for each byte of content, %.2f of reasoning, %.2f of a call; %.0f when all is "
        "parsed for "
        "every token\n",
        num_tokens, static_cast<double>(content.bytes_read) / static_cast<double>(size),
        static_cast<double>(thinking.bytes_read) / static_cast<double>(size),
        static_cast<double>(call.bytes_read) / static_cast<double>(size), static_cast<double>(num_tokens) / 2);
  }
}

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
        const ChatOutputDelta delta =
            stream.advance(parser.parse(text.substr(0, length), is_partial ? AnswerEnd::none : AnswerEnd::whole));
        sum.content += delta.content;
        for (const ChatOutputDelta::Call& part : delta.tool_calls) {
          if (part.index == sum.tool_calls.size()) sum.tool_calls.push_back({part.added.id, part.added.name, ""});
          else CHECK(part.added.name.empty() && part.added.id.empty());
          sum.tool_calls.at(part.index).arguments += part.added.arguments;
        }
      }
      const ChatOutput whole = parser.parse(text, AnswerEnd::whole);
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
  CHECK(grammar.substr(root, grammar.find('\n', root) - root).find("until-") ==
        std::string::npos);  // no text before it
  CHECK(ChatOutputParser(hermes, question, ToolUse{true, false}).grammar().text.empty());
}

TEST(a_template_that_is_not_one) {
  const ChatOutputParser parser("{% if %}", question, {});
  CHECK(!parser.understands_template());
  CHECK(parser.parse("<tool_call>", AnswerEnd::whole).content == "<tool_call>");
}

TEST(parsers_are_kept) {
  ChatOutputParsers parsers;
  const auto get = [&](const Conversation& conversation, ToolUse use = {}) {
    return parsers.get(hermes, conversation, use, "", "");
  };
  const auto with_tool = [](const std::string& name, const std::string& description = "") {
    return Conversation{question.messages, R"([{"type": "function", "function": {"name": ")" + name +
                                               R"(", "description": ")" + description +
                                               R"(", "parameters": {"type": "object"}}}])"};
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
        get(with_tool(name))
            ->parse("<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": {}}\n</tool_call>", AnswerEnd::whole);
    CHECK(output.tool_calls.size() == 1 && output.tool_calls[0].name == name);
    CHECK(get(question) == first);
  }
  const std::weak_ptr<const ChatOutputParser> last = get(with_tool("f19")), forgotten = get(with_tool("f0"));
  CHECK(!last.expired() && !forgotten.expired());
  for (int i = 0; i < 16; ++i) (void)get(with_tool("g" + std::to_string(i)));
  CHECK(last.expired() && forgotten.expired());
  const std::weak_ptr<const ChatOutputParser> large =
      get(with_tool("f", std::string(300000, 'x')));  // too large to keep
  CHECK(large.expired());
}

TEST_MAIN()
