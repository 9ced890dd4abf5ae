#include "chat/chat_output_reader.h"

namespace specdec {

ChatOutputReader::ChatOutputReader(const std::shared_ptr<const ChatOutputParser>& parser) {
  if (parser) reader_.emplace(parser->reader());
}

ChatOutputDelta ChatOutputReader::add(const std::string& text, AnswerEnd end) {
  text_ += text;
  if (reader_) reader_->add(text, end);
  else output_.content += text;
  return stream_.advance(output());
}

}  // namespace specdec
