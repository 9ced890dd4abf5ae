// Reads an answer while a model writes it, and says what each piece of text adds.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "chat/answer_reader.h"
#include "chat/chat_output.h"

namespace specdec {

class ChatOutputReader {
 public:
  // parser: null if all text is content.
  explicit ChatOutputReader(const std::shared_ptr<const ChatOutputParser>& parser);

  // Adds the next text and returns what the output gains. What is undecided comes with a later call, or at the end.
  ChatOutputDelta add(const std::string& text, AnswerEnd end);

  const std::string& text() const { return text_; }
  const ChatOutput& output() const { return reader_ ? reader_->output() : output_; }
  std::size_t num_bytes_read() const { return reader_ ? reader_->num_bytes_read() : text_.size(); }

 private:
  std::optional<AnswerReader> reader_;
  std::string text_;
  ChatOutput output_;  // without a reader
  ChatOutputStream stream_;
};

}  // namespace specdec
