#include "server/assistant_message.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "server/replies.h"

namespace specdec::server {
namespace {

AnswerEnd end_of(const Piece& piece) {
  if (!piece.finish_reason) return AnswerEnd::none;
  return *piece.finish_reason == FinishReason::stop ? AnswerEnd::whole : AnswerEnd::cut;
}

}  // namespace

std::vector<Json> AssistantMessage::add(const Piece& piece) {
  ends_.push_back(reader_.text().size() + piece.text.size());
  return add(piece.text, end_of(piece));
}

std::vector<Json> AssistantMessage::add(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces) {
    text += piece.text;
    ends_.push_back(reader_.text().size() + text.size());
  }
  return add(text, pieces.empty() ? AnswerEnd::cut : end_of(pieces.back()));
}

std::vector<Json> AssistantMessage::add(const std::string& text, AnswerEnd end) {
  std::vector<Json> deltas;
  ChatOutputDelta delta = reader_.add(text, end);
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
  if (reader_.output().reasoning_content.empty()) return 0;
  const auto answer = std::partition_point(ends_.begin(), ends_.end(), [this](std::size_t end) {
    const ChatOutput output = parser_->parse(reader_.text().substr(0, end), AnswerEnd::none);
    return output.content.empty() && output.tool_calls.empty();
  });
  return idx(answer - ends_.begin());
}

Json AssistantMessage::json() const {
  const ChatOutput& output = reader_.output();
  Json message = {{"role", "assistant"}, {"content", output.content}};
  if (!output.reasoning_content.empty()) message["reasoning_content"] = output.reasoning_content;
  if (!has_tool_calls()) return message;
  if (output.content.empty()) message["content"] = nullptr;
  message["tool_calls"] = Json::array();
  for (std::size_t i = 0; i < ids_.size() && i < output.tool_calls.size(); ++i) {
    const ToolCall& call = output.tool_calls[i];
    message["tool_calls"].push_back(
        {{"id", ids_[i]}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

}  // namespace specdec::server
