#include "cli/chat_conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "engine/prompt.h"

namespace specdec::cli {

using Json = nlohmann::ordered_json;

ChatConversation::ChatConversation(const Generator& generator, const std::string& system)
    : generator_(&generator), system_(system) {
  check_template();
}

// Throws if the template cannot be used with this system prompt.
void ChatConversation::check_template() {
  if (!has_template()) return;
  std::vector<Turn> turns = {{"?", {}}};
  turns.swap(turns_);
  try {
    (void)prompt(0);
  } catch (...) {
    turns_.swap(turns);
    throw;
  }
  turns_.swap(turns);
}

void ChatConversation::clear() {
  turns_.clear();
  left_out_ = 0;
}

void ChatConversation::set_system(const std::string& system) {
  const std::string before = std::exchange(system_, system);
  try {
    check_template();
  } catch (...) {
    system_ = before;
    throw;
  }
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
  left_out_ = turns_.empty() ? 0 : std::min(left_out_, turns_.size() - 1);  // a prompt has at least the last turn
  return true;
}

std::vector<Token> ChatConversation::prompt(std::size_t left_out) const {
  std::vector<Token> tokens;
  if (has_template()) {
    std::vector<ChatMessage> messages;
    if (!system_.empty()) messages.push_back({"system", system_});
    for (std::size_t i = left_out; i < turns_.size(); ++i) {
      messages.push_back({"user", turns_[i].question});
      if (!turns_[i].answer.is_empty() && i + 1 < turns_.size())
        messages.push_back({"assistant", turns_[i].answer.text});
    }
    tokens = generator_->chat().tokens(conversation(messages));
  } else {
    std::string text = system_;
    for (std::size_t i = left_out; i < turns_.size(); ++i) {
      text += (text.empty() ? "" : "\n") + turns_[i].question;
      if (i + 1 < turns_.size()) text += turns_[i].answer.text;
    }
    tokens = generator_->tokenize(text);
  }
  const std::vector<Token>& answer = turns_.back().answer.tokens;
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  return tokens;
}

// Everything after an omitted turn must be read again, so many turns are omitted at once to make room for the next
// questions: as few as leave half of the context, by bisection, since each attempt renders the conversation.
ChatConversation::Fit ChatConversation::fit(std::size_t reserve) const {
  const auto context = idx(generator_->n_ctx());
  const auto attempt = [&](std::size_t left_out, std::size_t room) -> std::optional<Fit> {
    try {
      Fit found = {prompt(left_out), left_out};
      if (found.tokens.size() <= room) return found;
    } catch (const ContextFull&) {
    }
    return std::nullopt;
  };
  if (std::optional<Fit> all = attempt(left_out_, context - std::min(reserve, context))) return *std::move(all);
  std::size_t too_few = left_out_;
  Fit best = {prompt(turns_.size() - 1), turns_.size() - 1};
  if (best.tokens.size() > context) fail_prompt_too_long(best.tokens.size(), true, generator_->n_ctx());
  while (best.left_out > too_few + 1) {
    const std::size_t middle = too_few + (best.left_out - too_few) / 2;
    if (std::optional<Fit> found = attempt(middle, context / 2)) best = *std::move(found);
    else too_few = middle;
  }
  return best;
}

ChatConversation::Use ChatConversation::use() const {
  if (turns_.empty()) return {0, 0};
  try {
    const Fit found = fit(0);
    return {found.tokens.size(), turns_.size() - found.left_out};
  } catch (const ContextFull&) {
    return {0, 0};
  }
}

void ChatConversation::prepare(Request& request, int reserve) {
  Fit found = fit(idx(reserve));
  request.prompt.clear();
  request.prompt_tokens = std::move(found.tokens);
  left_out_ = found.left_out;
}

std::string ChatConversation::to_json() const {
  Json messages = Json::array();
  const auto add = [&](const char* role, const std::string& content) {
    messages.push_back({{"role", role}, {"content", content}});
  };
  if (!system_.empty()) add("system", system_);
  for (const Turn& turn : turns_) {
    add("user", turn.question);
    if (!turn.answer.is_empty()) add("assistant", turn.answer.text);
  }
  return messages.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
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
