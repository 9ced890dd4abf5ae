#include "chat/chat_output_parsers.h"

#include <algorithm>
#include <cstddef>

#include "chat/chat_template.h"
#include "chat/jinja_template.h"

namespace specdec {
namespace {

constexpr std::size_t max_parsers = 16;
constexpr std::size_t max_kept_size = 256u
                                      << 10;  // bytes of tools and variables; with larger ones the parser is not kept

}  // namespace

std::shared_ptr<const ChatOutputParser> ChatOutputParsers::get(const std::string& template_text,
                                                               const Conversation& conversation, ToolUse tool_use,
                                                               const std::string& bos_token,
                                                               const std::string& eos_token) {
  std::string answer_start;
  try {
    answer_start = generation_prompt(template_text, conversation, bos_token, eos_token);
  } catch (const TemplateError&) {
    return nullptr;
  }
  Key key(template_text, conversation.tools, conversation.variables, std::move(answer_start), bos_token, eos_token,
          tool_use.is_parallel, tool_use.is_required, tool_use.json);
  if (Parser known = find(key)) return known;
  auto parser = std::make_shared<const ChatOutputParser>(template_text, conversation, tool_use, bos_token, eos_token);
  if (!parser->understands_template() && !parser->reads_json_calls()) return nullptr;
  if (conversation.tools.size() + conversation.variables.size() <= max_kept_size) keep(std::move(key), parser);
  return parser;
}

ChatOutputParsers::Parser ChatOutputParsers::find(const Key& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const auto& one) { return one.first == key; });
  if (found == recent_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found);
  return recent_.front().second;
}

void ChatOutputParsers::keep(Key key, const Parser& parser) {
  const std::lock_guard<std::mutex> lock(mutex_);
  recent_.emplace_front(std::move(key),
                        parser);  // another thread may have added the same one meanwhile; the older of the two is
                                  // dropped in its turn
  if (recent_.size() > max_parsers) recent_.pop_back();
}

}  // namespace specdec
