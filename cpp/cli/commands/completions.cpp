#include "cli/commands/completions.h"

#include <filesystem>
#include <optional>
#include <string>

#include "cli/manual_page.h"
#include "cli/shell_completions.h"
#include "cli/terminal/output.h"
#include "platform/output_file.h"

namespace specdec::cli {
namespace {

namespace fs = std::filesystem;

struct CompletionsArguments {
  std::string folder;
};

CommandLine command_line(CompletionsArguments& arguments) {
  CommandLine line;
  line.command = "specdec completions";
  line.arguments = "bash|zsh|fish | man [COMMAND] | --folder FOLDER";
  line.about =
      "Writes what a shell needs to complete the commands and options of specdec, or the manual page of a command "
      "(specdec completions man chat | man -l -).\n"
      "With --folder writes all of them where shells and man look for them: specdec completions --folder "
      "~/.local/share";
  line.num_positionals = 2;
  line.first_words = {"bash", "zsh", "fish", "man"};
  line.groups = {{"Options",
                  {text({"--folder"}, "FOLDER", arguments.folder,
                        "write bash-completion, zsh, fish and man into this folder, such as ~/.local/share")}}};
  return line;
}

// Replaces those of an earlier version.
void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  OutputFile output(path.string(), true, "");
  output.file().write(0, text.data(), text.size());
  output.publish();
}

void write_all(const fs::path& folder) {
  write_file(folder / "bash-completion" / "completions" / "specdec", bash_completions());
  write_file(folder / "zsh" / "site-functions" / "_specdec", zsh_completions());
  write_file(folder / "fish" / "vendor_completions.d" / "specdec.fish", fish_completions());
  for (const auto& [name, page] : manual_pages()) write_file(folder / "man" / "man1" / name, page);
}

std::string manual_page(const std::string& command) {
  const std::string name = (command.empty() ? "specdec" : "specdec-" + command) + ".1";
  for (const auto& [page_name, page] : manual_pages()) {
    if (page_name == name) return page;
  }
  throw UsageError("there is no command " + command);
}

}  // namespace

CommandLine describe_completions() {
  static CompletionsArguments arguments;
  return command_line(arguments);
}

int run_completions(int argc, const char* const* argv) {
  CompletionsArguments arguments;
  const CommandLine line = command_line(arguments);
  const std::optional<Positionals> positionals = parse(line, argc, argv);
  if (!positionals) return 0;
  const std::string what = positionals->empty() ? "" : (*positionals)[0];
  const std::string command = positionals->size() < 2 ? "" : (*positionals)[1];
  if (what.empty() == arguments.folder.empty() || (!command.empty() && what != "man"))
    throw UsageError("give one of bash, zsh, fish, man [COMMAND] or --folder FOLDER");
  if (what.empty()) write_all(arguments.folder);
  else if (what == "bash") write(bash_completions());
  else if (what == "zsh") write(zsh_completions());
  else if (what == "fish") write(fish_completions());
  else if (what == "man") write(manual_page(command));
  else throw UsageError("\"" + what + "\" is none of bash, zsh, fish and man" + suggestion(what, line.first_words));
  return 0;
}

}  // namespace specdec::cli
