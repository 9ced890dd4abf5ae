#include "cli/shell_completions.h"

#include <string>
#include <variant>
#include <vector>

#include "cli/command_table.h"
#include "cli/options.h"

namespace specdec::cli {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

Words command_names() {
  Words names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  return names;
}

// The possible words of an option's value.
Words values_of(const Option& option) {
  if (const auto* choice = std::get_if<option::Choice>(&option.type)) return choice->names;
  if (std::holds_alternative<option::Draft>(option.type)) return {"auto", "mtp", "self", "suffix", "ngram", "none"};
  if (std::holds_alternative<option::DraftTokens>(option.type)) return {"auto"};
  if (std::holds_alternative<option::Layers>(option.type)) return {"all", "auto"};
  return {};
}

bool takes_file(const Option& option) {
  const std::string& placeholder = option.flags.placeholder;
  return placeholder.find("FILE") != std::string::npos || placeholder.find("FOLDER") != std::string::npos;
}

std::vector<Option> options_of(const CommandLine& line) {
  std::vector<Option> all;
  for (const Group& group : line.groups) all.insert(all.end(), group.options.begin(), group.options.end());
  all.push_back({{"-h", "--help"}, "", "show the help", [](const std::string&) {}});
  if (!line.basics.empty()) all.push_back({{"--help-all"}, "", "show all options", [](const std::string&) {}});
  return all;
}

// ---- zsh: the texts of _arguments are in single quotes; colons and brackets have a meaning in them.

std::string zsh_text(std::string text) {
  text = replaced(text, "\\", "\\\\");
  for (const char* special : {":", "[", "]"}) text = replaced(text, special, std::string("\\") + special);
  return replaced(text, "'", "'\\''");
}

std::string zsh_value(const Option& option) {
  if (!option.takes_value()) return "";
  const Words words = values_of(option);
  const std::string name = (option.alone.empty() ? ":" : "::") + zsh_text(option.flags.placeholder) + ":";
  if (words.empty()) return name + (takes_file(option) ? "_files" : "");
  const std::string list = "(" + joined(words, " ") + ")";
  return name + (takes_file(option) ? "{_alternative \"words:word:" + list + "\" \"files:file:_files\"}" : list);
}

std::string zsh_option(const Option& option) {
  std::string text;
  const std::string help = "[" + zsh_text(brief(description(option))) + "]";
  for (const std::string& name : option.names()) text += " \\\n        '*" + name + help + zsh_value(option) + "'";
  return text;
}

// ---- fish

std::string fish_text(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const std::string& condition, const Option& option) {
  std::string text = "complete -c specdec -n '" + condition + "'";
  for (const std::string& name : option.names()) {
    const bool is_long = name.compare(0, 2, "--") == 0;
    text += is_long ? " -l " + name.substr(2) : (name.size() == 2 ? " -s " : " -o ") + name.substr(1);
  }
  const Words words = values_of(option);
  if (option.takes_value()) text += takes_file(option) ? " -r -F" : " -x";
  if (!words.empty()) text += " -a " + fish_text(joined(words, " "));
  return text + " -d " + fish_text(brief(description(option))) + "\n";
}

}  // namespace

// If nothing is offered, bash itself completes names of files.
std::string bash_completions() {
  std::string cases;
  for (const Command& command : commands()) {
    const CommandLine line = command.describe();
    Words names;
    std::string values;
    for (const Option& option : options_of(line)) {
      names.insert(names.end(), option.names().begin(), option.names().end());
      const Words words = values_of(option);
      if (!words.empty())
        values += "        " + joined(option.names(), " | ") + ") words='" + joined(words, " ") + "' ;;\n";
    }
    cases += "    " + std::string(command.name) + ")\n      options='" + joined(names, " ") + "'\n";
    if (!line.first_words.empty())
      cases += "      ((COMP_CWORD == 2)) && words='" + joined(line.first_words, " ") + "'\n";
    if (!values.empty()) cases += "      case $previous in\n" + values + "      esac\n";
    cases += "      ;;\n";
  }
  return "# Completions of specdec for bash, written by `specdec completions bash`.\n"
         "_specdec() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words='' options=''\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W '" +
         joined(command_names(), " ") +
         " help --help --version' -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases + "    help) words='" + joined(command_names(), " ") +
         "' ;;\n"
         "  esac\n"
         "  [[ $current == -* ]] && words=$options\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _specdec specdec\n";
}

std::string zsh_completions() {
  std::string list, cases;
  for (const Command& command : commands()) {
    const CommandLine line = command.describe();
    list += "    '" + zsh_text(command.name) + ":" + zsh_text(command.help) + "'\n";
    cases += "    " + std::string(command.name) + ")\n      _arguments";
    for (const Option& option : options_of(line)) cases += zsh_option(option);
    if (!line.first_words.empty()) cases += " \\\n        '1:word:(" + joined(line.first_words, " ") + ")'";
    if (line.num_positionals > 0) cases += " \\\n        '*:file:_files'";
    cases += " ;;\n";
  }
  return "#compdef specdec\n"
         "# Completions of specdec for zsh, written by `specdec completions zsh`.\n"
         "_specdec() {\n"
         "  local -a commands=(\n" +
         list +
         "  )\n"
         "  if ((CURRENT == 2)); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  ((CURRENT--))\n"
         "  case $command in\n" +
         cases +
         "    help) _describe command commands ;;\n"
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _specdec ]]; then\n"
         "  _specdec \"$@\"\n"
         "else\n"
         "  compdef _specdec specdec\n"
         "fi\n";
}

std::string fish_completions() {
  std::string text =
      "# Completions of specdec for fish, written by `specdec completions fish`.\n"
      "complete -c specdec -n __fish_use_subcommand -f\n"
      "complete -c specdec -n __fish_use_subcommand -l help -d 'show the help'\n"
      "complete -c specdec -n __fish_use_subcommand -l version -d 'show the version'\n";
  for (const Command& command : commands())
    text += "complete -c specdec -n __fish_use_subcommand -a " + std::string(command.name) + " -d " +
            fish_text(command.help) + "\n";
  for (const Command& command : commands()) {
    const CommandLine line = command.describe();
    const std::string condition = std::string("__fish_seen_subcommand_from ") + command.name;
    for (const Option& option : options_of(line)) text += fish_option(condition, option);
    if (!line.first_words.empty())
      text += "complete -c specdec -n '" + condition + "' -a " + fish_text(joined(line.first_words, " ")) + "\n";
  }
  return text;
}

}  // namespace specdec::cli
