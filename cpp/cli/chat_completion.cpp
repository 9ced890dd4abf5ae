#include "cli/chat_completion.h"

#include <algorithm>

#include "cli/chat_settings.h"

namespace specdec::cli {

Completion complete_chat(const std::string& text, const std::vector<ChatWord>& commands) {
  if (text.empty() || text.front() != '/' || text.find('\n') != std::string::npos) return {};
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) {
    std::vector<std::string> words;
    for (const ChatWord& command : commands) words.push_back(command.name + (command.argument.empty() ? "" : " "));
    return complete_word(text, 0, words);
  }
  const std::string name = text.substr(0, space);
  const auto command =
      std::find_if(commands.begin(), commands.end(), [&](const ChatWord& word) { return word.name == name; });
  if (command == commands.end()) return {};
  std::size_t start = std::min(text.size(), text.find_first_not_of(' ', space));
  if (command->argument == "FILE") {
    if (text.compare(start, 3, "-f ") == 0) start = std::min(text.size(), text.find_first_not_of(' ', start + 3));
    return complete_path(text, start);
  }
  if (command->argument != "NAME VALUE") return {};
  const std::size_t end = text.find_first_of(" =", start);
  if (end != std::string::npos)
    return complete_word(text, end + 1, ChatSettings::values_of(text.substr(start, end - start)));
  std::vector<std::string> names = ChatSettings::names();
  for (std::string& option : names) option += " ";
  return complete_word(text, start, names);
}

}  // namespace specdec::cli
