#include "server/assistant_message.h"

#include <algorithm>
#include <utility>

#include "server/replies.h"

namespace specdec::server {

std::vector<Json> AssistantMessage::add(const Piece& piece) {
  append(piece);
  return new_deltas();
}

std::vector<Json> AssistantMessage::add(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) append(piece);
  return new_deltas();
}

void AssistantMessage::append(const Piece& piece) {
  text_ += piece.text;
  ends_.push_back(text_.size());
  is_whole_ = piece.finish_reason == FinishReason::stop;
}

std::vector<Json> AssistantMessage::new_deltas() {
  std::vector<Json> deltas;
  if (!parser_) {
    const std::string added = text_.substr(output_.content.size());
    output_.content += added;
    if (!added.empty()) deltas.push_back({{"content", added}});
    return deltas;
  }
  output_ = parser_->parse(text_, !is_whole_);
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

std::size_t AssistantMessage::num_reasoning_tokens() const {
  if (output_.reasoning_content.empty()) return 0;
  const auto answer = std::partition_point(ends_.begin(), ends_.end(), [this](std::size_t end) {
    const ChatOutput output = parser_->parse(text_.substr(0, end), true);
    return output.content.empty() && output.tool_calls.empty();
  });
  return static_cast<std::size_t>(answer - ends_.begin());
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
