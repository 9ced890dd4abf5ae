#include "cli/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "cli/llama_flags.h"
#include "cli/terminal/output.h"

namespace specdec::cli {
namespace {

constexpr std::size_t width = 80;        // of the help
constexpr std::size_t help_column = 28;  // where descriptions begin

[[noreturn]] void expected(const std::string& what, const std::string& got) {
  throw UsageError("expected " + what + ", got \"" + got + "\"");
}

std::string with_default(const std::string& help, const std::string& value) {
  return value.empty() ? help : help + " (default: " + value + ")";
}

std::string join(const std::vector<std::string>& words, const std::string& separator) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : separator) + word;
  return result;
}

Option help_option(bool has_basics) {
  return {{"-h", "--help"}, "", has_basics ? "show this help; --help-all: all options" : "show this help", nullptr};
}

// The help up to its first semicolon, and the default.
std::string brief(const std::string& help) {
  const std::size_t end = std::min(help.find("; "), help.find(". "));
  const std::size_t standard = help.find(" (default");
  if (end == std::string::npos || standard < end) return help.substr(0, end);
  const std::size_t close = help.find(')', standard == std::string::npos ? help.size() : standard);
  return help.substr(0, end) + (close == std::string::npos ? "" : help.substr(standard, close + 1 - standard));
}

std::string help_line(const Option& option) {
  std::string left = "  " + join(option.names, ", ");
  if (!option.value.empty()) left += " " + option.value;
  if (left.size() + 2 > help_column) {
    left += "\n" + std::string(help_column, ' ');
  } else {
    left.resize(help_column, ' ');
  }
  return left + wrap(option.help, width - help_column, help_column) + "\n";
}

const Option* find(const CommandLine& line, const std::string& name) {
  for (const Group& group : line.groups) {
    for (const Option& option : group.options) {
      if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return &option;
    }
  }
  return nullptr;
}

std::vector<std::string> all_names(const CommandLine& line) {
  std::vector<std::string> names = {"-h", "--help", "--help-all"};
  for (const Group& group : line.groups) {
    for (const Option& option : group.options) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// Edits (insert, delete, replace) that turn a into b.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// An option as given: its name, and its value if it has the form NAME=VALUE.
struct Written {
  std::string name;
  std::optional<std::string> value;
};

Written split_option(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (argument.compare(0, 2, "--") != 0 || equals == std::string::npos) return {argument, std::nullopt};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

// next: the following argument, or null; becomes null if it is not the value.
std::string value_of(const CommandLine& line, const Option& option, const Written& written, const char*& next) {
  const bool has_value = next != nullptr && next[0] != '-';
  if (written.value || (!option.alone.empty() && !has_value)) {
    next = nullptr;
    return written.value.value_or(option.alone);
  }
  const std::string missing = written.name + " needs a value (" + option.value + ")";
  if (next == nullptr) throw UsageError(missing);
  if (find(line, split_option(next).name) != nullptr) {
    const std::string meant = option.names.back() + "=" + next;
    throw UsageError(missing + ", but the option " + next + " follows; write " + meant + " if that is the value");
  }
  return next;
}

// Options that the command does not have: of llama.cpp's, those that match the default print a note; all others
// are one error.
class UnknownOptions {
 public:
  explicit UnknownOptions(const CommandLine& line) : line_(line) {}

  // Takes argv[at]; returns the index of its last value.
  int take(const std::string& name, int at, int argc, const char* const* argv) {
    const LlamaFlag flag = llama_flag(name, line_.command);
    if (flag.is_moot) {
      note("note: " + name + " changes nothing: " + flag.instead + "\n");
      const std::vector<std::string> switches = {"on", "off", "auto", "true", "false", "enabled", "disabled"};
      const std::string next = at + 1 < argc ? argv[at + 1] : "";
      const bool is_free_word = line_.num_positionals == 0 && !next.empty() && next[0] != '-';
      const bool has_value = is_free_word || real_number(next) || std::find(switches.begin(), switches.end(), next) != switches.end();
      return has_value ? at + 1 : at;
    }
    if (!errors_.empty()) errors_ += "\n";
    if (flag.instead.empty()) errors_ += "unknown option " + name + suggestion(name, all_names(line_));
    else errors_ += "there is no option " + name + ": " + flag.instead;
    while (at + 1 < argc && (argv[at + 1][0] != '-' || real_number(argv[at + 1]))) ++at;
    return at;
  }
  void check() const {
    if (!errors_.empty()) throw UsageError(errors_);
  }

 private:
  const CommandLine& line_;
  std::string errors_;
};

void set_option(const Option& option, const std::string& name, const std::string& value) {
  try {
    option.set(value);
  } catch (const UsageError& error) {
    throw UsageError(name + ": " + error.what());
  }
}

}  // namespace

std::optional<double> real_number(const std::string& text) {
  char* stop = nullptr;
  const double value = std::strtod(text.c_str(), &stop);  // the locale is C's: nothing here calls setlocale
  const bool starts_blank = !text.empty() && std::isspace(static_cast<unsigned char>(text[0])) != 0;
  if (text.empty() || starts_blank || stop != text.c_str() + text.size()) return std::nullopt;
  return value;
}

std::int64_t parse_integer(const std::string& text, std::int64_t low, std::int64_t high) {
  const std::optional<std::int64_t> value = whole_number<std::int64_t>(text);
  if (!value || *value < low || *value > high) {
    expected("a whole number from " + std::to_string(low) + " to " + std::to_string(high), text);
  }
  return *value;
}

double parse_real(const std::string& text, const Range& range) {
  const std::optional<double> value = real_number(text);
  if (!value || !range.contains(*value)) expected(range.text(), text);
  return *value;
}

Option flag(std::vector<std::string> names, bool& target, std::string help, bool value) {
  return {std::move(names), "", std::move(help), [&target, value](const std::string&) { target = value; }};
}

Option integer(std::vector<std::string> names, int& target, int low, int high, std::string help) {
  return {std::move(names), "N", std::move(help),
          [&target, low, high](const std::string& text) { target = static_cast<int>(parse_integer(text, low, high)); }};
}

Option real(std::vector<std::string> names, double& target, const Range& range, const std::string& help) {
  return {std::move(names), "X", with_default(help, number_text(target)),
          [&target, range](const std::string& text) { target = parse_real(text, range); }};
}

Option text(std::vector<std::string> names, std::string value, std::string& target, std::string help) {
  return {std::move(names), std::move(value), std::move(help), [&target](const std::string& text) { target = text; }};
}

Option texts(std::vector<std::string> names, std::string value, std::vector<std::string>& target, std::string help) {
  return {std::move(names), std::move(value), std::move(help), [&target](const std::string& text) { target.push_back(text); }};
}

Option choice(std::vector<std::string> names, const std::vector<std::string>& allowed, std::string& target, const std::string& help) {
  const auto set = [&target, allowed](const std::string& text) {
    if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) expected("one of " + join(allowed, ", "), text);
    target = text;
  };
  return {std::move(names), join(allowed, "|"), with_default(help, target), set};
}

Parsed parse(const CommandLine& line, int argc, const char* const* argv) {
  Parsed parsed;
  UnknownOptions unknown(line);
  bool only_positionals = false;
  for (int at = 0; at < argc; ++at) {
    const std::string argument = argv[at];
    if (only_positionals || argument.size() < 2 || argument[0] != '-') {
      if (parsed.positionals.size() == line.num_positionals) {
        throw UsageError("unexpected argument \"" + argument + "\"" + line.positional_hint);
      }
      parsed.positionals.push_back(argument);
      continue;
    }
    if (argument == "--") {
      only_positionals = true;
      continue;
    }
    if (argument == "-h" || argument == "--help" || argument == "--help-all") {
      parsed.help = argument == "--help-all" ? Help::all : Help::basics;
      return parsed;
    }
    const Written written = split_option(argument);
    const Option* option = find(line, written.name);
    if (option == nullptr && line.num_positionals > 0 && (argument == "-m" || argument == "--model")) continue;  // as elsewhere
    if (option == nullptr) {
      const LlamaFlag flag = llama_flag(written.name, line.command);
      option = flag.same_as.empty() ? nullptr : find(line, flag.same_as);
      if (option != nullptr) note("note: " + written.name + " is taken as " + flag.same_as + ": " + flag.instead + "\n");
    }
    if (option == nullptr) {
      at = unknown.take(written.name, at, argc, argv);
      continue;
    }
    if (option->value.empty() && written.value) throw UsageError(written.name + " takes no value");
    if (option->value.empty()) {
      option->set("");
      continue;
    }
    const char* next = at + 1 < argc ? argv[at + 1] : nullptr;
    set_option(*option, written.name, value_of(line, *option, written, next));
    if (next != nullptr) ++at;
  }
  unknown.check();
  return parsed;
}

std::string help_text(const CommandLine& line, Help help) {
  const bool shows_all = help == Help::all || line.basics.empty();
  std::string result = "usage: " + line.command + (line.arguments.empty() ? "" : " " + line.arguments) + "\n";
  std::istringstream paragraphs(line.about);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) result += "\n" + wrap(paragraph, width, 0) + "\n";
  if (!shows_all) {
    result += "\n";
    for (const std::string& name : line.basics) {
      Option option = *find(line, name);
      option.help = brief(option.help);
      option.names = {name};
      result += help_line(option);
    }
    return result + help_line(help_option(true));
  }
  for (const Group& group : line.groups) {
    result += "\n" + group.title + ":\n";
    for (const Option& option : group.options) result += help_line(option);
  }
  return result + (line.groups.empty() ? "\n" : "") + help_line(help_option(!line.basics.empty()));
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  const std::size_t letters = word.size() - std::min(word.size(), word.find_first_not_of('-'));
  std::size_t best_distance = std::min<std::size_t>(3, letters / 3 + 1);  // closer than this
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

}  // namespace specdec::cli
