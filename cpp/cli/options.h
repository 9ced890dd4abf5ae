// Describes command lines by one list of options, from which parsing, checks, help, completions and man pages are made.
// Written by hand because PyPI, where this build gets its packages, has no maintained argument parser for C++.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/argument.h"
#include "base/suggestion.h"
#include "engine/option.h"

namespace specdec::cli {

constexpr int exit_interrupted = 130;  // 128 + SIGINT, as shells expect

// The command line is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Names (a long one last; as in llama.cpp, a single dash may have several letters), type, placeholder and help come
// from the engine's tables; the option's own name may be empty.
struct Option : option::Description {
  Option(option::Description row, std::function<option::Value()> present,
         std::function<void(const option::Value&)> setter)
      : Description(std::move(row)), get(std::move(present)), set(std::move(setter)), initial(get()) {}

  // An option that only the command line has; without a placeholder, a flag. action: throws a UsageError that says what
  // is expected.
  Option(std::vector<std::string> names, std::string placeholder, std::string help,
         std::function<void(const std::string& text)> action);

  std::function<option::Value()> get;  // the current value, to which lists add
  std::function<void(const option::Value& checked)> set;
  option::Value initial;  // the default that the help shows; a flag sets the opposite
  std::string alone;      // the value if none follows; empty: a value must follow

  const std::vector<std::string>& names() const { return flags.names; }
  bool takes_value() const { return !std::holds_alternative<option::Flag>(type); }
};

// Thrown by the action of an option that is a question, after answering it: the command does nothing else.
struct Answered {};

struct Group {
  std::string title;
  std::vector<Option> options;
};

// ---- Options, one line of a table each. The last use on the command line wins, except for lists, which collect all of
// them.

// An option for a row of the engine's tables.
template <class Owner>
Option option_of(const option::Option<Owner>& row, Owner& owner) {
  return {row, [get = row.get, &owner] { return get(owner); },
          [set = row.set, &owner](const option::Value& value) { set(owner, value); }};
}

// Options for all rows of a table under one heading of the help.
template <class Owner>
Group group_of(const option::Table<Owner>& table, const std::string& title, Owner& owner) {
  Group group{title, {}};
  for (const option::Option<Owner>& row : table) {
    if (row.flags.group == title) group.options.push_back(option_of(row, owner));
  }
  return group;
}

// An option that only the command line has.
using Names = std::vector<std::string>;
template <class T>
Option own_option(Names names, option::Type type, std::string placeholder, T& target, std::string help) {
  return {{{}, std::move(type), {{}, std::move(names), std::move(placeholder), std::move(help)}},
          [&target] { return option::to_value(target); },
          [&target](const option::Value& value) { option::from_value(value, target); }};
}
inline Option integer(Names names, int& target, int low, int high, std::string help) {
  return own_option(std::move(names), option::Whole{whole_numbers(low, high)}, "N", target, std::move(help));
}
inline Option real(Names names, double& target, const Range& range, std::string help) {
  return own_option(std::move(names), option::Number{range}, "X", target, std::move(help));
}
inline Option text(Names names, std::string placeholder, std::string& target, std::string help) {
  return own_option(std::move(names), option::String{}, std::move(placeholder), target, std::move(help));
}
inline Option texts(Names names, std::string placeholder, std::vector<std::string>& target, std::string help) {
  return own_option(std::move(names), option::Texts{}, std::move(placeholder), target, std::move(help));
}
Option choice(Names names, const std::vector<std::string>& allowed, std::string& target, std::string help);
Option flag(Names names, bool& target, std::string help, bool value = true);

// ---- Command lines

struct CommandLine {
  std::string command;    // "specdec info"
  std::string arguments;  // the text after it in the usage line
  std::string about;      // paragraphs, separated by newlines
  std::vector<Group> groups;
  std::vector<std::string> basics;  // names of the options that --help shows (--help-all shows all); empty: both show
                                    // all
  std::size_t num_positionals = 0;  // maximum number
  std::string positional_hint;      // for the error if there are more
  std::function<bool(const std::string&)> takes_positional = {};  // null: accepts anything
  std::vector<std::string> first_words;                           // allowed first positionals; empty: any
};

// Null if the command has no option of that name.
const Option* find_option(const CommandLine& line, const std::string& name);

enum class Help { basics, all };

using Positionals = std::vector<std::string>;

// Sets the options. argv[0] is the first argument after the command. Accepts --name VALUE, --name=VALUE and "--" (only
// positionals follow). Returns nullopt after writing the help for -h, --help or --help-all; the rest is then ignored.
std::optional<Positionals> parse(const CommandLine& line, int argc, const char* const* argv);

// At most 80 columns wide. basics: only the basic options, with the first part of their texts, to fit a screen.
std::string help_text(const CommandLine& line, Help help);

// An option's text in the help, with its default; brief(): its first part, and the default.
std::string description(const Option& option);
std::string brief(const std::string& description);

}  // namespace specdec::cli
