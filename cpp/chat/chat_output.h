// Splits a model's answer to a conversation into text, reasoning and tool calls. llama.cpp's common/chat derives from
// the chat template how a model writes them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "chat/tool_schemas.h"

namespace specdec {

class AnswerReader;
struct AnswerForm;
struct Conversation;

struct ToolCall {
  std::string id;  // written by the model; most write none
  std::string name;
  std::string arguments;  // JSON; only its beginning while the call is still being written
};

struct ChatOutput {
  std::string content, reasoning_content;
  std::vector<ToolCall> tool_calls;
  bool is_over = false;  // only one call is allowed, and the text continues with another one, which is left out
};

enum class AnswerEnd { none, cut, whole };  // more text follows; the text was cut off; the model ended it

// When JSON in an answer is read as calls (chat/json_calls.h): never, or if the answer has none in the template's form.
enum class JsonCalls { never, without_others };

// How an answer may call tools.
struct ToolUse {
  bool is_parallel = true;   // allows more than one call in an answer
  bool is_required = false;  // requires at least one
  JsonCalls json = JsonCalls::without_others;
};

// What a template writes at the end of a conversation to begin the answer. Throws TemplateError (jinja_template.h).
std::string generation_prompt(const std::string& template_text, const Conversation& conversation,
                              const std::string& bos_token, const std::string& eos_token);

class ChatOutputParser {
 public:
  // For answers to `conversation` with a Jinja template. If the template cannot be understood, the parser takes
  // everything as content; the constructor does not throw.
  ChatOutputParser(const std::string& template_text, const Conversation& conversation, ToolUse tool_use,
                   const std::string& bos_token = "", const std::string& eos_token = "");
  ~ChatOutputParser();
  ChatOutputParser(ChatOutputParser&&) noexcept;
  ChatOutputParser& operator=(ChatOutputParser&&) noexcept;

  bool understands_template() const;
  bool writes_calls() const;  // the template says how
  bool reads_json_calls() const;

  // Names of control tokens that mark tool calls and reasoning: the text must have them.
  const std::vector<std::string>& control_tokens() const;

  // A grammar (GBNF) for an answer with a required call. It matches `prefix`, the end of the prompt, then the answer.
  // Literals that are marks stand for the schemas of arguments. Empty if the template has no calls or none is required.
  struct Grammar {
    std::string text, prefix;
    std::vector<SchemaMark> marks;
    std::vector<std::string> ignored;  // pointers of keywords that it does not enforce, into tool_schemas()
  };
  const Grammar& grammar() const;

  // How reasoning is marked; an empty `begin` means that it is not marked or that the marks are unknown. is_open: the
  // prompt ends with the first mark.
  struct Reasoning {
    std::string begin, end;
    bool is_open = false;
  };
  const Reasoning& reasoning() const;

  // A parser for answers that continue this beginning, which is not a part of their outputs.
  ChatOutputParser after(const std::string& beginning) const;

  // A reader that takes an answer piece by piece (answer_reader.h).
  AnswerReader reader() const;

  // The output of a text. Text that does not match the template is content. Throws only bad_alloc.
  ChatOutput parse(const std::string& text, AnswerEnd end) const;

 private:
  struct Parser;
  ChatOutputParser() = default;

  std::shared_ptr<const Parser> parser_;  // not null
  std::string beginning_;                 // of answers; the texts do not include it
};

// What an output adds to an earlier output of the same text.
struct ChatOutputDelta {
  std::string content, reasoning_content;
  struct Call {
    std::size_t index;
    ToolCall added;  // id and name come once, with the first part of the arguments
  };
  std::vector<Call> tool_calls;
};

// The deltas of an output while it is written. Their sum is the output.
class ChatOutputStream {
 public:
  ChatOutputDelta advance(const ChatOutput& output);
  std::size_t num_tool_calls() const { return sent_.size(); }

 private:
  std::size_t content_ = 0, reasoning_ = 0;  // bytes that were sent
  std::vector<std::size_t> sent_;            // of the arguments of each call
};

}  // namespace specdec
