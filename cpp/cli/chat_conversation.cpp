#include "cli/chat_conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace specdec::cli {

using Json = nlohmann::ordered_json;

ChatConversation::ChatConversation(const Generator& generator, const std::string& system)
    : generator_(&generator), system_(system) {
  if (!has_template()) return;
  turns_.push_back({"?", {}});
  (void)prompt();
  turns_.clear();
}

void ChatConversation::clear() {
  turns_.clear();
  left_out_ = 0;
}

void ChatConversation::set_system(const std::string& system) {
  system_ = system;
  clear();
}

void ChatConversation::ask(const std::string& question) { turns_.push_back({question, {}}); }

void ChatConversation::add_to_answer(const Answer& more) {
  Answer& answer = turns_.back().answer;
  answer.text += more.text;
  answer.tokens.insert(answer.tokens.end(), more.tokens.begin(), more.tokens.end());
  answer.is_complete = more.is_complete;
}

bool ChatConversation::forget_turn() {
  if (turns_.empty()) return false;
  turns_.pop_back();
  left_out_ = std::min(left_out_, turns_.size());
  return true;
}

std::vector<Token> ChatConversation::prompt() const {
  std::vector<Token> tokens;
  if (has_template()) {
    std::vector<ChatMessage> messages;
    if (!system_.empty()) messages.push_back({"system", system_});
    for (std::size_t i = left_out_; i < turns_.size(); ++i) {
      messages.push_back({"user", turns_[i].question});
      if (i + 1 < turns_.size()) messages.push_back({"assistant", turns_[i].answer.text});
    }
    tokens = generator_->chat().tokens(conversation(messages));
  } else {
    std::string text = system_;
    for (std::size_t i = left_out_; i < turns_.size(); ++i) {
      text += (text.empty() ? "" : "\n") + turns_[i].question;
      if (i + 1 < turns_.size()) text += turns_[i].answer.text;
    }
    tokens = generator_->tokenize(text);
  }
  const std::vector<Token>& answer = turns_.back().answer.tokens;
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  return tokens;
}

void ChatConversation::prepare(Request& request, int reserve) {
  request.prompt.clear();
  const auto context = idx(generator_->n_ctx());
  std::size_t room = context - idx(reserve);
  while (true) {
    const bool is_last = left_out_ + 1 >= turns_.size();
    try {
      request.prompt_tokens = prompt();
      if (request.prompt_tokens.size() <= room || is_last) return;
    } catch (const ContextFull&) {
      if (is_last) throw;
    }
    // Everything after an omitted turn must be read again, so many turns are omitted at once to make room for the next
    // questions.
    room = context / 2;
    ++left_out_;
  }
}

std::string ChatConversation::to_json() const {
  Json messages = Json::array();
  const auto add = [&](const char* role, const std::string& content) {
    messages.push_back({{"role", role}, {"content", content}});
  };
  if (!system_.empty()) add("system", system_);
  for (const Turn& turn : turns_) {
    add("user", turn.question);
    add("assistant", turn.answer.text);
  }
  return messages.dump(2) + "\n";
}

void ChatConversation::from_json(const std::string& text) {
  const Json messages = Json::parse(text, nullptr, false);
  if (!messages.is_array())
    throw std::invalid_argument("not a list of messages, [{\"role\": \"user\", \"content\": \"...\"}, ...]");
  std::string system;
  std::vector<Turn> turns;
  for (const Json& message : messages) {
    const auto field = [&](const char* name) {
      const bool is_text = message.is_object() && message.contains(name) && message[name].is_string();
      if (!is_text) throw std::invalid_argument("a message needs a \"role\" and a \"content\", both text");
      return message[name].get<std::string>();
    };
    const std::string role = field("role"), content = field("content");
    if (role == "system" && turns.empty() && system.empty()) system = content;
    else if (role == "user") turns.push_back({content, {}});
    else if (role == "assistant" && !turns.empty() && turns.back().answer.is_empty()) {
      turns.back().answer = {content, generator_->continuation_tokens(content)};
    } else
      throw std::invalid_argument(
          "the messages must be an optional \"system\", then \"user\" and \"assistant\" in turn");
  }
  system_ = system;
  turns_ = std::move(turns);
  left_out_ = 0;
}

}  // namespace specdec::cli
