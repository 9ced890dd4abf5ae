// Generates the help of a command from its options.

#include <algorithm>
#include <sstream>
#include <variant>

#include "cli/options.h"
#include "cli/terminal/output.h"

namespace specdec::cli {
namespace {

constexpr std::size_t help_width = 80;
constexpr std::size_t help_column = 28;  // where descriptions begin

template <class... Types>
bool is_any_of(const option::Type& type) {
  return (std::holds_alternative<Types>(type) || ...);
}

std::string help_line(const std::vector<std::string>& names, const std::string& placeholder, const std::string& help) {
  std::string left = "  ";
  for (const std::string& name : names) left += (left.size() > 2 ? ", " : "") + name;
  if (!placeholder.empty()) left += " " + placeholder;
  if (left.size() + 2 > help_column) left += "\n" + std::string(help_column, ' ');
  else left.resize(help_column, ' ');
  return left + wrap(help, help_width - help_column, help_column) + "\n";
}

}  // namespace

std::string description(const Option& option) {
  const std::string& help = option.flags.help;
  const bool shows_default = is_any_of<option::Whole, option::Number, option::DraftTokens, option::Choice>(option.type);
  if (!shows_default || help.find("(default") != std::string::npos) return help;
  const std::string value = option::text(option.initial);
  return value.empty() ? help : help + " (default: " + value + ")";
}

std::string brief(const std::string& help) {
  const std::size_t end = std::min(help.find("; "), help.find(". "));
  const std::size_t standard = help.find(" (default");
  if (end == std::string::npos || standard < end) return help.substr(0, end);
  const std::size_t close = help.find(')', standard == std::string::npos ? help.size() : standard);
  return help.substr(0, end) + (close == std::string::npos ? "" : help.substr(standard, close + 1 - standard));
}

std::string help_text(const CommandLine& line, Help help) {
  std::string result = "usage: " + line.command + (line.arguments.empty() ? "" : " " + line.arguments) + "\n";
  std::istringstream paragraphs(line.about);
  for (std::string paragraph; std::getline(paragraphs, paragraph);)
    result += "\n" + wrap(paragraph, help_width, 0) + "\n";
  const bool is_brief = help != Help::all && !line.basics.empty();
  if (is_brief || line.groups.empty()) result += "\n";
  for (const std::string& name : is_brief ? line.basics : std::vector<std::string>()) {
    const Option& option = *find_option(line, name);
    result += help_line({name}, option.flags.placeholder, brief(description(option)));
  }
  for (const Group& group : is_brief ? std::vector<Group>() : line.groups) {
    result += "\n" + group.title + ":\n";
    for (const Option& option : group.options)
      result += help_line(option.names(), option.flags.placeholder, description(option));
  }
  return result + help_line({"-h", "--help"}, "",
                            line.basics.empty() ? "show this help" : "show this help; --help-all: all options");
}

}  // namespace specdec::cli
