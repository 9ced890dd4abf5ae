// Reads an answer while a model writes it. Parsing the whole text again for every token would take time that grows with
// the square of the answer, so text that can only continue the content or the reasoning is appended without parsing,
// and the bytes parsed are limited to a multiple of the answer's size.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "chat/chat_output.h"

namespace specdec {

enum class AnswerEnd { none, cut, whole };  // more text follows; the text was cut off; the model ended it

class ChatOutputReader {
 public:
  // parser: null if all text is content.
  explicit ChatOutputReader(std::shared_ptr<const ChatOutputParser> parser) : parser_(std::move(parser)) {}

  // Adds the next text and returns what the output gains. If parsing would exceed the limit, a part of the output comes
  // with a later call: after the text has grown by 1/64 of its size, or at the end.
  ChatOutputDelta add(const std::string& text, AnswerEnd end);

  const std::string& text() const { return text_; }
  const ChatOutput& output() const { return output_; }  // for the text so far; parts may be missing until the end
  std::size_t num_bytes_parsed() const { return num_bytes_parsed_; }

 private:
  ChatOutputDelta append(std::string ChatOutput::* part, std::size_t end);
  ChatOutputDelta parse(bool is_partial);
  std::string ChatOutput::* open_part() const;

  const std::shared_ptr<const ChatOutputParser> parser_;
  std::string text_;
  std::size_t num_read_ = 0;  // bytes of text_ that output_ comes from
  ChatOutput output_;
  ChatOutputStream stream_;
  std::string ChatOutput::* open_ =
      nullptr;  // the part that is still open at the end of the text; null: unknown, or a tool call
  std::size_t num_bytes_parsed_ = 0;
};

}  // namespace specdec
