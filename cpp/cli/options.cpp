#include "cli/options.h"

#include <algorithm>
#include <optional>

#include "cli/llama_flags.h"
#include "cli/option_value.h"
#include "cli/terminal/output.h"

namespace specdec::cli {
namespace {

std::vector<std::string> all_names(const CommandLine& line) {
  std::vector<std::string> names = {"-h", "--help", "--help-all"};
  for (const Group& group : line.groups) {
    for (const Option& option : group.options) names.insert(names.end(), option.names().begin(), option.names().end());
  }
  return names;
}

// An option as written: its name, and its value if it has the form NAME=VALUE.
struct Written {
  std::string name;
  std::optional<std::string> value;
};

Written split_option(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (argument.compare(0, 2, "--") != 0 || equals == std::string::npos) return {argument, std::nullopt};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

bool is_option(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

// One pass over a command line. Options that the command does not have are collected into one error.
class Parser {
 public:
  Parser(const CommandLine& line, int argc, const char* const* argv) : line_(line), arguments_(argv, argv + argc) {}

  std::optional<Positionals> parse() {
    bool only_positionals = false;
    for (; at_ < arguments_.size(); ++at_) {
      const std::string& argument = arguments_[at_];
      if (only_positionals || !is_option(argument)) {
        add_positional(argument);
      } else if (argument == "--") {
        only_positionals = true;
      } else if (argument == "-h" || argument == "--help" || argument == "--help-all") {
        write(help_text(line_, argument == "--help-all" ? Help::all : Help::basics));
        return std::nullopt;
      } else {
        try {
          take(split_option(argument));
        } catch (const Answered&) {
          return std::nullopt;
        }
      }
    }
    if (!errors_.empty()) throw UsageError(errors_);
    return positionals_;
  }

 private:
  const std::string* next() const { return at_ + 1 < arguments_.size() ? &arguments_[at_ + 1] : nullptr; }

  bool takes(const std::string& argument) const { return !line_.takes_positional || line_.takes_positional(argument); }

  void add_positional(const std::string& argument) {
    if (positionals_.size() == line_.num_positionals || !takes(argument)) {
      throw UsageError("unexpected argument \"" + argument + "\"" + line_.positional_hint);
    }
    positionals_.push_back(argument);
  }

  void take(const Written& written) {
    const Option* option = find_option(line_, written.name);
    const bool is_model = written.name == "-m" || written.name == "--model";
    if (option == nullptr && line_.num_positionals > 0 && is_model && !written.value)
      return;  // accepted as in other
               // commands
    if (option == nullptr) {
      const LlamaFlag flag = llama_flag(written.name, line_.command);
      if (!flag.same_as.empty()) option = find_option(line_, flag.same_as);
      if (option == nullptr) return take_unknown(written.name, flag);
      note("note: " + written.name + " is taken as " + flag.same_as + ": " + flag.instead + "\n");
    }
    if (!option->takes_value()) {
      if (written.value) throw UsageError(written.name + " takes no value");
      return option->set(!std::get<bool>(option->initial));
    }
    const std::string value = value_of(*option, written);
    try {
      option->set(read_value(*option, value));
    } catch (const UsageError& error) {
      throw UsageError(written.name + ": " + error.what());
    }
  }

  std::string value_of(const Option& option, const Written& written) {
    if (written.value) return *written.value;
    if (!option.alone.empty() && (next() == nullptr || (*next())[0] == '-')) return option.alone;
    const std::string missing = written.name + " needs a value (" + option.flags.placeholder + ")";
    if (next() == nullptr) throw UsageError(missing);
    if (find_option(line_, split_option(*next()).name) != nullptr) {
      const std::string meant = option.names().back() + "=" + *next();
      throw UsageError(missing + ", but the option " + *next() + " follows; write " + meant + " if that is the value");
    }
    return arguments_[++at_];
  }

  // Skips options of llama.cpp for which a note is enough.
  void take_unknown(const std::string& name, const LlamaFlag& flag) {
    if (flag.is_moot) {
      note("note: " + name + " changes nothing: " + flag.instead + "\n");
      static const std::vector<std::string> switches = {"on", "off", "auto", "true", "false", "enabled", "disabled"};
      if (next() == nullptr) return;
      const bool is_positional = positionals_.size() < line_.num_positionals && takes(*next());
      const bool is_free_word = !is_positional && !is_option(*next());
      const bool is_switch = std::find(switches.begin(), switches.end(), *next()) != switches.end();
      if (is_free_word || is_switch || real_number(*next())) ++at_;
      return;
    }
    if (!errors_.empty()) errors_ += "\n";
    if (flag.instead.empty()) errors_ += "unknown option " + name + suggestion(name, all_names(line_));
    else errors_ += "there is no option " + name + ": " + flag.instead;
    while (next() != nullptr && (!is_option(*next()) || real_number(*next()))) ++at_;
  }

  const CommandLine& line_;
  std::vector<std::string> arguments_;
  std::size_t at_ = 0;
  std::vector<std::string> positionals_;
  std::string errors_;
};

}  // namespace

const Option* find_option(const CommandLine& line, const std::string& name) {
  for (const Group& group : line.groups) {
    for (const Option& option : group.options) {
      if (std::find(option.names().begin(), option.names().end(), name) != option.names().end()) return &option;
    }
  }
  return nullptr;
}

Option choice(Names names, const std::vector<std::string>& allowed, std::string& target, std::string help) {
  std::string placeholder;
  for (const std::string& name : allowed) placeholder += (placeholder.empty() ? "" : "|") + name;
  return own_option(std::move(names), option::Choice{allowed}, std::move(placeholder), target, std::move(help));
}

Option flag(Names names, bool& target, std::string help, bool value) {
  Option option = own_option(std::move(names), option::Flag{}, "", target, std::move(help));
  option.initial = !value;
  return option;
}

Option::Option(std::vector<std::string> names, std::string placeholder, std::string help,
               std::function<void(const std::string& text)> action)
    : Description{{}, placeholder.empty() ? option::Type(option::Flag{}) : option::String{}, {}} {
  flags = {{}, std::move(names), std::move(placeholder), std::move(help)};
  initial = false;
  set = [action = std::move(action)](const option::Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    action(text == nullptr ? "" : *text);
  };
}

std::optional<Positionals> parse(const CommandLine& line, int argc, const char* const* argv) {
  return Parser(line, argc, argv).parse();
}

}  // namespace specdec::cli
