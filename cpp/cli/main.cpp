// specdec: runs the subcommand and turns exceptions into a message and an exit code.
//
// Exit codes: 0 success, 1 failure while running, 2 wrong command line, 130 interrupted. Results go to standard output,
// everything else to standard error.
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command_table.h"
#include "cli/options.h"
#include "cli/shared_options.h"
#include "cli/terminal/output.h"
#include "cli/version.h"
#include "platform/console.h"
#include "platform/interrupt.h"
#include "platform/truncated_files.h"

namespace specdec::cli {
namespace {

std::string overview() {
  std::string text = "usage: specdec COMMAND [options]\n\n" + wrap(purpose, 80, 0) + "\n\nCommands:\n";
  for (const Command& command : commands()) {
    std::string line = std::string("  ") + command.name;
    line.resize(14, ' ');
    text += line + command.help + "\n";
  }
  return text +
         "\nOptions:\n"
         "  -h, --help  show this help; `specdec COMMAND --help` shows a command's own,\n"
         "              `specdec COMMAND --help-all` all of its options\n"
         "  --version   show the version\n\n"
         "Without a model, bench, chat, generate, race and serve use the bundled pair of\nsmall models.\n";
}

// Commands of other programs, such as Ollama's, and their equivalents here.
struct Foreign {
  const char* names;  // surrounded by blanks
  const char* instead;
};
constexpr Foreign foreign[] = {
    {" run chat-cli cli llama-cli ", "`specdec chat FILE.gguf`, or `specdec chat OWNER/REPO`, starts a conversation"},
    {" pull download get ", "`specdec models pull OWNER/REPO` downloads a model"},
    {" list ls ps ", "`specdec models list` lists downloaded models"},
    {" rm delete remove ", "`specdec models rm NAME` removes a downloaded model"},
    {" show inspect ", "`specdec info FILE.gguf` shows what is in a model's file"},
    {" server start llama-server ", "`specdec serve -m FILE.gguf` serves models over HTTP"},
    {" complete completion prompt ", "`specdec generate -p TEXT` continues a text"},
    {" llama-bench benchmark ", "`specdec bench` measures tokens per second"},
    {" llama-quantize convert create ", "`specdec quantize IN.gguf OUT.gguf` quantizes a model to MXFP6"},
};

[[noreturn]] void fail_unknown(const std::string& word) {
  std::vector<std::string> names = {"--help", "--version"};
  for (const Command& command : commands()) names.push_back(command.name);
  const bool is_option = word[0] == '-';
  std::string hint;
  for (const Foreign& command : foreign) {
    if (!is_option && std::string(command.names).find(" " + word + " ") != std::string::npos)
      hint = std::string("; ") + command.instead;
  }
  if (hint.empty()) hint = suggestion(word, names);
  if (is_option && hint.empty())
    hint = "; a command comes first: specdec chat " + word + " ..., specdec generate " + word + " ...";
  throw UsageError((is_option ? "unknown option " : "unknown command ") + word + hint);
}

int run(int argc, const char* const* argv) {
  if (argc < 1) {
    note(overview());
    return 2;
  }
  const std::string word = argv[0];
  if (word == "-h" || word == "--help" || word == "--help-all" || word == "help") {
    const Command* command = word == "help" && argc > 1 ? find_command(argv[1]) : nullptr;
    if (command == nullptr) {
      write(overview());
      return 0;
    }
    const char* const help[] = {"--help"};
    return command->run(1, help);
  }
  if (word == "--version") {
    write(std::string("specdec ") + version + "\n" + build + "\n");
    return 0;
  }
  const Command* command = find_command(word);
  if (command == nullptr) fail_unknown(word);
  return command->run(argc - 1, argv + 1);
}

// Reports a wrong command line and names the help.
int report_usage(const std::string& program, const std::exception& error) {
  note(program + ": " + error.what() + "\nTry '" + program + " --help'.\n");
  return 2;
}

}  // namespace
}  // namespace specdec::cli

int main(int argc, char** argv) {
  using namespace specdec::cli;
  specdec::open_standard_streams();
  specdec::report_truncated_files(1);
  specdec::keep_running_on_closed_pipes();  // write() throws OutputClosed instead, which ends the program quietly
  const bool has_command = argc > 1 && find_command(argv[1]) != nullptr;
  const std::string program = has_command ? std::string("specdec ") + argv[1] : "specdec";
  try {
    return run(argc - 1, argv + 1);
  } catch (const OutputClosed&) {
    return 0;
  } catch (const UsageError& error) {
    return report_usage(program, error);
  } catch (const specdec::ArgumentError& error) {
    return report_usage(program, UsageError(with_flag(error)));
  } catch (const std::invalid_argument& error) {
    return report_usage(program, error);
  } catch (const specdec::Cancelled&) {
    note(program + ": interrupted\n");
    return exit_interrupted;
  } catch (const std::bad_alloc&) {
    note(program + ": not enough memory\n");
  } catch (const specdec::ContextFull& error) {
    note(program + ": " + with_remedy(error) + "\n");
  } catch (const std::exception& error) {
    note(program + ": " + error.what() + "\n");
  }
  return 1;
}
