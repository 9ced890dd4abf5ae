#include "chat/chat_output_reader.h"

#include <algorithm>

namespace specdec {
namespace {

// How many bytes may be parsed: per byte of text, and in any case, so that short answers are parsed for every token.
constexpr std::size_t parsed_per_byte = 64, parsed_at_least = 64u << 10;
constexpr std::size_t compared_bytes = 64;

}  // namespace

ChatOutputDelta ChatOutputReader::add(const std::string& text, AnswerEnd end) {
  text_ += text;
  if (!parser_) return append(&ChatOutput::content, text_.size());
  if (end != AnswerEnd::none) return parse(end == AnswerEnd::cut);
  if (open_ != nullptr) {
    const ChatOutputParser::PlainText plain = parser_->plain_text(text_, num_read_);
    if (!plain.is_followed_by_mark) return append(open_, plain.end);
  }
  const bool is_within_limit = num_bytes_parsed_ + text_.size() <= parsed_per_byte * text_.size() + parsed_at_least;
  return is_within_limit ? parse(true) : ChatOutputDelta();
}

ChatOutputDelta ChatOutputReader::append(std::string ChatOutput::* part, std::size_t end) {
  const std::string added = text_.substr(num_read_, end - num_read_);
  num_read_ = end;
  output_.*part += added;
  return stream_.append(part, added);
}

ChatOutputDelta ChatOutputReader::parse(bool is_partial) {
  num_bytes_parsed_ += text_.size();
  num_read_ = text_.size();
  output_ = parser_->parse(text_, is_partial);
  ChatOutputDelta delta = stream_.advance(output_);
  open_ = open_part();
  return delta;
}

// The part that ends where the text ends, if no mark nearby may have closed it and no beginning of a mark was held
// back.
std::string ChatOutput::* ChatOutputReader::open_part() const {
  std::string ChatOutput::* const part =
      output_.content.empty() ? &ChatOutput::reasoning_content : &ChatOutput::content;
  const std::string& written = output_.*part;
  const std::size_t size = std::min({written.size(), text_.size(), compared_bytes}), from = text_.size() - size;
  const bool is_open = size > 0 && output_.tool_calls.empty() && stream_.has_sent(output_, part) &&
                       text_.compare(from, size, written, written.size() - size, size) == 0 &&
                       parser_->plain_text(text_, from - std::min(from, compared_bytes)).end == text_.size();
  return is_open ? part : nullptr;
}

}  // namespace specdec
