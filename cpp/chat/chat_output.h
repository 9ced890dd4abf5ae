// Takes apart what a model writes in answer to a conversation: its text, its reasoning, its tool calls. How a model
// writes them is derived from its chat template by llama.cpp's common/chat.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace specdec {

struct Conversation;

struct ToolCall {
  std::string id;  // the model's own; most write none
  std::string name;
  std::string arguments;  // JSON; of a call that is still being written, its beginning
};

struct ChatOutput {
  std::string content, reasoning_content;
  std::vector<ToolCall> tool_calls;
  bool is_over = false;  // only one call is allowed, and the text goes on with another one, which is not here
};

// Where JSON in an answer is read as calls (chat/json_calls.h): nowhere, where the template has no form for them, or
// wherever there are none in the template's form.
enum class JsonCalls { never, without_form, always };

// How an answer may call tools.
struct ToolUse {
  bool is_parallel = true;   // more than one call in an answer
  bool is_required = false;  // at least one
  JsonCalls json = JsonCalls::without_form;
};

// What a template writes at the end of a conversation to begin the answer. Throws TemplateError (jinja_template.h).
std::string generation_prompt(const std::string& template_text, const Conversation& conversation,
                              const std::string& bos_token, const std::string& eos_token);

class ChatOutputParser {
 public:
  // For answers to `conversation` in a Jinja template. A template that cannot be understood gives a parser that takes
  // everything as content, without throwing.
  ChatOutputParser(const std::string& template_text, const Conversation& conversation, ToolUse tool_use,
                   const std::string& bos_token = "", const std::string& eos_token = "");
  ~ChatOutputParser();
  ChatOutputParser(ChatOutputParser&&) noexcept;
  ChatOutputParser& operator=(ChatOutputParser&&) noexcept;

  bool understands_template() const;
  bool reads_json_calls() const;

  // Names of control tokens that mark tool calls and reasoning: the text must have them.
  const std::vector<std::string>& control_tokens() const;

  // What an answer with a required call matches, in GBNF: `prefix`, with which the prompt ends, then the answer. Empty:
  // the template has no calls, or none is required.
  struct Grammar {
    std::string text, prefix;
  };
  const Grammar& grammar() const;

  // How reasoning is marked; no `begin`: it is not, or not known. is_open: the prompt ends with the first mark.
  struct Reasoning {
    std::string begin, end;
    bool is_open = false;
  };
  const Reasoning& reasoning() const;

  // Text from byte `from` on, where content or reasoning is open: how far it certainly continues that part, and whether
  // what follows is more than the beginning of a mark at which the part can end.
  struct PlainText {
    std::size_t end;
    bool is_followed_by_mark;
  };
  PlainText plain_text(const std::string& text, std::size_t from) const;

  // The same for answers that continue this beginning, which is no part of their outputs.
  ChatOutputParser after(const std::string& beginning) const;

  // The whole output, or (is_partial) its beginning. Text that does not match the template is content. Throws only
  // bad_alloc.
  ChatOutput parse(const std::string& text, bool is_partial) const;

 private:
  ChatOutput parse_by_template(const std::string& text, bool is_partial) const;

  struct Parser;
  ChatOutputParser() = default;
  ChatOutput parse_whole(const std::string& text, bool is_partial) const;

  std::shared_ptr<const Parser> parser_;  // not null
  std::string beginning_;                 // of answers, which is not in the texts
  ChatOutput begun_;                      // its output
};

// What an output has more than an earlier one of the same text.
struct ChatOutputDelta {
  std::string content, reasoning_content;
  struct Call {
    std::size_t index;
    ToolCall added;  // id and name: once, with the first part of the arguments
  };
  std::vector<Call> tool_calls;
};

// The deltas of an output while it is written; their sum is the output, except where text turns out not to be what it
// looked like: what was sent stays sent.
class ChatOutputStream {
 public:
  ChatOutputDelta advance(const ChatOutput& output);
  // The same for an output that only has `added` more in one part, which has_sent() before.
  ChatOutputDelta append(std::string ChatOutput::* part, const std::string& added);
  bool has_sent(const ChatOutput& output, std::string ChatOutput::* part) const { return sent_.*part == output.*part; }
  std::size_t num_tool_calls() const { return sent_.tool_calls.size(); }

 private:
  ChatOutput sent_;
};

}  // namespace specdec
