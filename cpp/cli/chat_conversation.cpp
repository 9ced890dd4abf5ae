#include "cli/chat_conversation.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "base/index.h"
#include "cli/picture_files.h"
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
  std::vector<Turn> turns = {{"?", {}, {}}};
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

void ChatConversation::ask(const std::string& question, PictureFiles pictures) {
  turns_.push_back({question, {}, std::move(pictures)});
}

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

Text ChatConversation::prompt(std::size_t left_out) const {
  Text prompt;
  PictureFiles pictures;
  const auto question_of = [&pictures](const Turn& turn) {
    const std::string marks = marks_of(turn.pictures, pictures.size());
    pictures.insert(pictures.end(), turn.pictures.begin(), turn.pictures.end());
    return marks + turn.question;
  };
  if (has_template()) {
    std::vector<ChatMessage> messages;
    if (!system_.empty()) messages.push_back({"system", system_});
    for (std::size_t i = left_out; i < turns_.size(); ++i) {
      messages.push_back({"user", question_of(turns_[i])});
      if (!turns_[i].answer.is_empty() && i + 1 < turns_.size())
        messages.push_back({"assistant", turns_[i].answer.text});
    }
    Conversation whole = conversation(messages);
    whole.pictures = pictures;
    prompt = generator_->chat().tokens(whole);
  } else {
    std::string text = system_;
    for (std::size_t i = left_out; i < turns_.size(); ++i) {
      text += (text.empty() ? "" : "\n") + question_of(turns_[i]);
      if (i + 1 < turns_.size()) text += turns_[i].answer.text;
    }
    prompt = read_prompt(generator_->vocabulary(), generator_->pictures(), MarkedText{text, {}}, pictures,
                         std::numeric_limits<int>::max(), {});
  }
  const std::vector<Token>& answer = turns_.back().answer.tokens;
  prompt.tokens.insert(prompt.tokens.end(), answer.begin(), answer.end());
  return prompt;
}

// Everything after an omitted turn must be read again, so many turns are omitted at once to make room for the next
// questions: as few as leave half of the context, by bisection, since each attempt renders the conversation.
ChatConversation::Fit ChatConversation::fit(std::size_t reserve) const {
  const auto context = idx(generator_->n_ctx());
  const auto attempt = [&](std::size_t left_out, std::size_t room) -> std::optional<Fit> {
    try {
      Fit found = {prompt(left_out), left_out};
      if (found.text.tokens.size() <= room) return found;
    } catch (const ContextFull&) {
    }
    return std::nullopt;
  };
  if (std::optional<Fit> all = attempt(left_out_, context - std::min(reserve, context))) return *std::move(all);
  std::size_t too_few = left_out_;
  Fit best = {prompt(turns_.size() - 1), turns_.size() - 1};
  if (best.text.tokens.size() > context) fail_prompt_too_long(best.text.tokens.size(), true, generator_->n_ctx());
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
    return {found.text.tokens.size(), turns_.size() - found.left_out};
  } catch (const ContextFull&) {
    return {0, 0};
  }
}

void ChatConversation::prepare(Request& request, int reserve) {
  Fit found = fit(idx(reserve));
  request.prompt.clear();
  request.set_prompt(std::move(found.text));
  left_out_ = found.left_out;
}

namespace {

// A text, or parts as the OpenAI API has them, pictures first.
Json content_of(const std::string& text, const PictureFiles& pictures) {
  if (pictures.empty()) return text;
  Json parts = Json::array();
  for (const auto& picture : pictures) {
    const std::string url = "data:image/*;base64," + to_base64(picture->bytes);
    parts.push_back({{"type", "image_url"}, {"image_url", {{"url", url}}}});
  }
  parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

std::string text_of_parts(const Json& parts, PictureFiles& pictures) {
  // What stands under a name; null if there is no such thing.
  const auto field = [](const Json& json, const char* name) {
    return json.is_object() && json.contains(name) ? json[name] : Json();
  };
  std::string text;
  for (const Json& part : parts) {
    if (const Json own = field(part, "text"); field(part, "type") == "text" && own.is_string()) {
      text += (text.empty() ? "" : "\n") + own.get<std::string>();
      continue;
    }
    const Json url = field(field(part, "image_url"), "url");
    const std::string given = url.is_string() ? url.get<std::string>() : "";
    const std::size_t comma = given.compare(0, 5, "data:") == 0 ? given.find(',') : std::string::npos;
    const auto bytes =
        comma == std::string::npos ? std::nullopt : from_base64(std::string_view(given).substr(comma + 1));
    if (!bytes)
      throw std::invalid_argument("a part of a message must be a \"text\", or an \"image_url\" with a data URL");
    pictures.push_back(std::make_shared<PictureFile>(PictureFile{"a picture of the conversation", *bytes}));
  }
  if (pictures.empty()) throw std::invalid_argument("a message needs a \"role\" and a \"content\", both text");
  return text;
}

}  // namespace

std::string ChatConversation::to_json() const {
  Json messages = Json::array();
  const auto add = [&](const char* role, const Json& content) {
    messages.push_back({{"role", role}, {"content", content}});
  };
  if (!system_.empty()) add("system", system_);
  for (const Turn& turn : turns_) {
    add("user", content_of(turn.question, turn.pictures));
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
    const std::string role = field("role");
    PictureFiles pictures;
    const bool is_parts = role == "user" && message.contains("content") && message["content"].is_array();
    const std::string content = is_parts ? text_of_parts(message["content"], pictures) : field("content");
    if (role == "system" && turns.empty() && system.empty()) system = content;
    else if (role == "user") turns.push_back({content, {}, pictures});
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
