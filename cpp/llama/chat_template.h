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

bool has_chat_template(const Model& model);

// The messages in the model's own chat template, followed by what begins the assistant's answer. llama.cpp knows the usual
// templates by their looks; it does not run Jinja. Throws ModelError where the model has none, or one that it does not know.
std::string apply_chat_template(const Model& model, const std::vector<ChatMessage>& messages);

}  // namespace specdec
