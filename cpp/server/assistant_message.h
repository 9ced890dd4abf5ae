// An assistant's message in the form of the chat API (content, reasoning_content and tool_calls), complete and as
// deltas.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "chat/chat_output_reader.h"
#include "engine/request.h"
#include "server/json_body.h"

namespace specdec::server {

class AssistantMessage {
 public:
  // parser: null if all text is content.
  explicit AssistantMessage(std::shared_ptr<const ChatOutputParser> parser)
      : parser_(std::move(parser)), reader_(parser_) {}

  // Adds the next tokens. Returns what they add to the message, each as a "delta".
  std::vector<Json> add(const Piece& piece);
  std::vector<Json> add(const std::vector<Piece>& pieces);

  Json json() const;
  std::size_t num_tokens() const { return ends_.size(); }
  std::size_t num_reasoning_tokens() const;  // tokens before content or a call, including the marks around the
                                             // reasoning
  bool is_over() const { return reader_.output().is_over; }  // no further text is wanted
  bool has_tool_calls() const { return !ids_.empty(); }

 private:
  std::vector<Json> add(const std::string& text, AnswerEnd end);

  const std::shared_ptr<const ChatOutputParser> parser_;
  ChatOutputReader reader_;
  std::vector<std::size_t> ends_;  // where each token's text ends in the whole text
  std::vector<std::string> ids_;   // of the calls
};

}  // namespace specdec::server
