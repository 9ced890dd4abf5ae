// Keeps the most recently used parsers of answers. Deriving one from a template takes 10 to 20 ms, and most requests
// have the same tools as an earlier one.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "chat/chat_output.h"

namespace specdec {

class ChatOutputParsers {
 public:
  // Parameters as in ChatOutputParser's constructor. Null for a template that cannot be understood. For any thread.
  std::shared_ptr<const ChatOutputParser> get(const std::string& template_text, const Conversation& conversation,
                                              ToolUse tool_use, const std::string& bos_token,
                                              const std::string& eos_token);

 private:
  // Only the tools, the variables and the end of the prompt affect the answer.
  using Key =
      std::tuple<std::string, std::string, std::string, std::string, std::string, std::string, bool, bool, JsonCalls>;
  using Parser = std::shared_ptr<const ChatOutputParser>;

  Parser find(const Key& key);
  void keep(Key key, const Parser& parser);

  std::mutex mutex_;
  std::list<std::pair<Key, Parser>> recent_;  // the latest first
};

}  // namespace specdec
