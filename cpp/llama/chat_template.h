// A conversation as the text that a model was trained to continue.
#pragma once

#include <string>
#include <vector>

#include "llama/model.h"

namespace specdec {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// An empty template is none.
bool has_chat_template(const Model& model);

// The messages in the model's own chat template, followed by what begins the assistant's answer. llama.cpp knows the usual
// templates by their looks; it does not run Jinja. Throws ModelError where the model has none, or one that it does not know.
std::string apply_chat_template(const Model& model, const std::vector<ChatMessage>& messages);

// The templates that llama.cpp knows by name: "chatml", "llama3", ...
std::vector<std::string> chat_template_names();

// In one of these. Throws std::invalid_argument for other names.
std::string apply_chat_template(const std::string& name, const std::vector<ChatMessage>& messages);

}  // namespace specdec
