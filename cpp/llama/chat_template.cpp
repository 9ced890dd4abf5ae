#include "llama/chat_template.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "llama.h"

namespace specdec {
namespace {

// Null if there is none.
const char* template_of(const Model& model) {
  const char* text = llama_model_chat_template(model.get(), nullptr);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

// chat_template: a name, or the text of a template. Nullopt if llama.cpp does not know it.
std::optional<std::string> apply(const char* chat_template, const std::vector<ChatMessage>& messages) {
  std::vector<llama_chat_message> views;
  for (const ChatMessage& message : messages) views.push_back({message.role.c_str(), message.content.c_str()});
  std::string text;
  while (true) {
    const int length =
        llama_chat_apply_template(chat_template, views.data(), views.size(), true, text.data(), static_cast<int>(text.size()));
    if (length < 0) return std::nullopt;
    const bool complete = static_cast<std::size_t>(length) <= text.size();
    text.resize(static_cast<std::size_t>(length));
    if (complete) return text;
  }
}

}  // namespace

bool has_chat_template(const Model& model) { return template_of(model) != nullptr; }

std::string apply_chat_template(const Model& model, const std::vector<ChatMessage>& messages) {
  const char* chat_template = template_of(model);
  if (chat_template == nullptr) throw ModelError(model.path() + ": the model has no chat template");
  if (const auto text = apply(chat_template, messages)) return *text;
  throw ModelError(model.path() + ": llama.cpp does not know this model's chat template; name a similar one (--chat-template)");
}

std::vector<std::string> chat_template_names() {
  std::vector<const char*> names(static_cast<std::size_t>(llama_chat_builtin_templates(nullptr, 0)));
  llama_chat_builtin_templates(names.data(), names.size());
  return {names.begin(), names.end()};
}

std::string apply_chat_template(const std::string& name, const std::vector<ChatMessage>& messages) {
  const std::vector<std::string> names = chat_template_names();
  const bool known = std::find(names.begin(), names.end(), name) != names.end();
  if (const auto text = known ? apply(name.c_str(), messages) : std::nullopt) return *text;
  throw std::invalid_argument("\"" + name + "\" is not a chat template of llama.cpp");
}

}  // namespace specdec
