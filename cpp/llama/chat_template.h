// Formats a conversation with a model's chat template.
#pragma once

#include <string>
#include <vector>

#include "llama/model.h"

namespace specdec {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// An empty template counts as none.
bool has_chat_template(const Model& model);

// The messages in the model's own chat template, followed by the start of the assistant's answer. llama.cpp recognises common
// templates by their text; it does not run Jinja. Throws ModelError if the model has no template or an unknown one.
std::string apply_chat_template(const Model& model, const std::vector<ChatMessage>& messages);

// The templates that llama.cpp knows by name: "chatml", "llama3", ...
std::vector<std::string> chat_template_names();

// The same with a named template. Throws std::invalid_argument for unknown names.
std::string apply_chat_template(const std::string& name, const std::vector<ChatMessage>& messages);

}  // namespace specdec
