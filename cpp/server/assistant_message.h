// The message that an assistant writes, as the chat API has it: content, reasoning_content and tool_calls; whole, and in deltas. All text
// is parsed anew for every piece, which takes half a millisecond for 16 kB.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llama/chat_output.h"
#include "server/json_body.h"

namespace specdec::server {

class AssistantMessage {
 public:
  // parser: null if all text is content.
  explicit AssistantMessage(std::shared_ptr<const ChatOutputParser> parser) : parser_(std::move(parser)) {}

  // Adds text. Returns what the message has more by that, each as a "delta". is_whole: the model has ended it.
  std::vector<Json> add(const std::string& text, bool is_whole);

  Json json() const;
  bool has_tool_calls() const { return !ids_.empty(); }

 private:
  const std::shared_ptr<const ChatOutputParser> parser_;
  std::string text_;
  ChatOutput output_;
  ChatOutputStream stream_;
  std::vector<std::string> ids_;  // of the calls
};

}  // namespace specdec::server
