// The options that replace a model's chat template.
#pragma once

#include <optional>
#include <string>

#include "chat/chat_template.h"
#include "cli/options.h"

namespace specdec::cli {

Option template_option(std::optional<ChatTemplate>& chat_template);       // --chat-template
Option template_file_option(std::optional<ChatTemplate>& chat_template);  // --chat-template-file

Option template_variables_option(std::string& variables);  // --chat-template-kwargs, JSON

}  // namespace specdec::cli
