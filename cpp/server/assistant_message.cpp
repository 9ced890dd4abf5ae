#include "server/assistant_message.h"

#include <utility>

#include "server/replies.h"

namespace specdec::server {

std::vector<Json> AssistantMessage::add(const std::string& text, bool is_whole) {
  std::vector<Json> deltas;
  if (!parser_) {
    output_.content += text;
    if (!text.empty()) deltas.push_back({{"content", text}});
    return deltas;
  }
  text_ += text;
  output_ = parser_->parse(text_, !is_whole);
  ChatOutputDelta delta = stream_.advance(output_);
  if (!delta.reasoning_content.empty()) deltas.push_back({{"reasoning_content", std::move(delta.reasoning_content)}});
  if (!delta.content.empty()) deltas.push_back({{"content", std::move(delta.content)}});
  for (auto& [index, added] : delta.tool_calls) {
    Json call = {{"index", index}};
    Json function = Json::object();
    if (index == ids_.size()) {
      ids_.push_back(added.id.empty() ? new_id("call_") : added.id);
      call["id"] = ids_.back();
      call["type"] = "function";
      function["name"] = added.name;
    }
    function["arguments"] = std::move(added.arguments);
    call["function"] = std::move(function);
    deltas.push_back({{"tool_calls", Json::array({std::move(call)})}});
  }
  return deltas;
}

Json AssistantMessage::json() const {
  Json message = {{"role", "assistant"}, {"content", output_.content}};
  if (!output_.reasoning_content.empty()) message["reasoning_content"] = output_.reasoning_content;
  if (!has_tool_calls()) return message;
  if (output_.content.empty()) message["content"] = nullptr;
  message["tool_calls"] = Json::array();
  for (std::size_t i = 0; i < ids_.size() && i < output_.tool_calls.size(); ++i) {
    const ToolCall& call = output_.tool_calls[i];
    message["tool_calls"].push_back(
        {{"id", ids_[i]}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

}  // namespace specdec::server
