#include "cli/template_options.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "base/utf8.h"
#include "cli/prompt.h"

namespace specdec::cli {

Option template_option(std::optional<ChatTemplate>& chat_template) {
  std::string names;
  for (const std::string& name : chat_template_names()) names += (names.empty() ? "" : ", ") + name;
  const auto set = [&chat_template, names](const std::string& text) {
    try {
      chat_template = ChatTemplate(text, "--chat-template");
    } catch (const std::invalid_argument&) {
      throw UsageError("expected the text of a Jinja template or one of " + names + ", got \"" + printable(text) +
                       "\"");
    }
  };
  return {{"--chat-template"},
          "NAME|TEXT",
          "Jinja template to use instead of the model's own, or one of llama.cpp's built-in formats, which have no "
          "default system prompts: " +
              names,
          set};
}

Option template_file_option(std::optional<ChatTemplate>& chat_template) {
  const auto set = [&chat_template](const std::string& path) {
    PromptSource file;
    file.file = path;
    const std::string text = read_prompt(file);
    try {
      chat_template = ChatTemplate(text, path);
    } catch (const std::invalid_argument&) {
      throw UsageError("expected a file with a Jinja template, got \"" + printable(path) +
                       "\", which has neither {{ nor {%");
    }
  };
  return {{"--chat-template-file"}, "FILE", "file with a Jinja template to use instead of the model's own", set};
}

Option template_variables_option(std::string& variables) {
  const auto set = [&variables](const std::string& text) {
    if (!nlohmann::json::parse(text, nullptr, false).is_object())
      throw UsageError("expected a JSON object, got \"" + printable(text) + "\"");
    variables = text;
  };
  return {{"--chat-template-kwargs"},
          "JSON",
          R"(variables for the chat template, such as {"enable_thinking": false})",
          set};
}

}  // namespace specdec::cli
