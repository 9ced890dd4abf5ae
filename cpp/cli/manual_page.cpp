#include "cli/manual_page.h"

#include <sstream>

#include "cli/command_table.h"
#include "cli/options.h"
#include "cli/version.h"

namespace specdec::cli {
namespace {

// Escapes text so that nothing in it is a request or an escape.
std::string plain(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\') result += "\\e";
    else if (letter == '-') result += "\\-";
    else result += letter;
  }
  return result.empty() || (result.front() != '.' && result.front() != '\'') ? result : "\\&" + result;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }

std::string heading(const std::string& name) {
  std::string title = name;
  for (char& letter : title) letter = letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  return ".TH " + plain(title) + " 1 \"\" \"specdec " + version + "\" \"User Commands\"\n";
}

std::string entry(const Option& option) {
  std::string names;
  for (const std::string& name : option.names()) names += (names.empty() ? "" : ", ") + bold(name);
  const std::string& placeholder = option.flags.placeholder;
  return ".TP\n" + names + (placeholder.empty() ? "" : " \\fI" + plain(placeholder) + "\\fR") + "\n" +
         plain(description(option)) + "\n";
}

std::string page_of(const Command& command) {
  const CommandLine line = command.describe();
  const std::string name = std::string("specdec-") + command.name;
  std::string text = heading(name) + ".SH NAME\n" + plain(name) + " \\- " + plain(command.help) + "\n.SH SYNOPSIS\n" +
                     bold(line.command) + " " + plain(line.arguments) + "\n.SH DESCRIPTION\n";
  std::istringstream paragraphs(line.about);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) text += plain(paragraph) + "\n.PP\n";
  text += ".SH OPTIONS\n";
  for (const Group& group : line.groups) {
    text += ".SS " + plain(group.title) + "\n";
    for (const Option& option : group.options) text += entry(option);
  }
  return text +
         ".SH EXIT STATUS\n0: success. 1: failure while running. 2: wrong command line. 130: interrupted.\n"
         ".SH SEE ALSO\n\\fBspecdec\\fR(1)\n";
}

std::string main_page() {
  std::string text = heading("specdec") + ".SH NAME\nspecdec \\- run language models faster by speculative decoding\n" +
                     ".SH SYNOPSIS\n" + bold("specdec") + " \\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n" +
                     plain(purpose) + "\n.SH COMMANDS\n";
  std::string pages;
  for (const Command& command : commands()) {
    text += ".TP\n" + bold(command.name) + "\n" + plain(command.help) + "\n";
    pages += (pages.empty() ? "" : ", ") + bold(std::string("specdec-") + command.name) + "(1)";
  }
  return text + ".SH SEE ALSO\n" + pages + "\n";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> manual_pages() {
  std::vector<std::pair<std::string, std::string>> pages = {{"specdec.1", main_page()}};
  for (const Command& command : commands())
    pages.emplace_back(std::string("specdec-") + command.name + ".1", page_of(command));
  return pages;
}

}  // namespace specdec::cli
