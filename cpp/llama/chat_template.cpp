#include "llama/chat_template.h"

#include "llama.h"
#include "speculative/error.h"

namespace specdec {

bool has_chat_template(const Model& model) { return llama_model_chat_template(model.get(), nullptr) != nullptr; }

std::string apply_chat_template(const Model& model, const std::vector<ChatMessage>& messages) {
  const char* chat_template = llama_model_chat_template(model.get(), nullptr);
  if (chat_template == nullptr) throw ModelError(model.path() + ": the model has no chat template");
  std::vector<llama_chat_message> views;
  for (const ChatMessage& message : messages) views.push_back({message.role.c_str(), message.content.c_str()});
  std::string text;
  while (true) {
    const int length =
        llama_chat_apply_template(chat_template, views.data(), views.size(), true, text.data(), static_cast<int>(text.size()));
    if (length < 0) throw ModelError(model.path() + ": llama.cpp does not know this model's chat template");
    const bool complete = static_cast<std::size_t>(length) <= text.size();
    text.resize(static_cast<std::size_t>(length));
    if (complete) return text;
  }
}

}  // namespace specdec
