// Command lines described by a table, which is used to parse, to check ranges and to print the help. Written by hand because
// PyPI, where this build gets its packages, has no maintained argument parser for C++.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/argument.h"

namespace specdec::cli {

constexpr int exit_interrupted = 130;  // 128 + SIGINT, as shells expect

// The command line is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Option {
  std::vector<std::string> names;  // "-m", "--model": a long one last; a single dash may have several letters, as in llama.cpp
  std::string value;               // placeholder of the value in the help; empty: a flag
  std::string help;
  std::function<void(const std::string& text)> set;  // throws UsageError saying what it expects
  std::string alone = "";                            // the value if none follows; empty: one must
};

struct Group {
  std::string title;
  std::vector<Option> options;
};

// One line of the table each. The target's present value is the default that the help shows; the last use on the command
// line wins, except in texts(), which collects all of them.
Option flag(std::vector<std::string> names, bool& target, std::string help, bool value = true);
Option integer(std::vector<std::string> names, int& target, int low, int high, std::string help);
Option real(std::vector<std::string> names, double& target, const Range& range, const std::string& help);
Option text(std::vector<std::string> names, std::string value, std::string& target, std::string help);
Option texts(std::vector<std::string> names, std::string value, std::vector<std::string>& target, std::string help);
Option choice(std::vector<std::string> names, const std::vector<std::string>& allowed, std::string& target, const std::string& help);

// Whole text to number, or UsageError with the valid range.
std::int64_t parse_integer(const std::string& text, std::int64_t low, std::int64_t high);
double parse_real(const std::string& text, const Range& range);

// Parses the whole text as a number; nullopt if it is not one. Does not check the range.
template <class Integer>  // std::int64_t, std::uint64_t
std::optional<Integer> whole_number(const std::string& text) {
  Integer value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}
std::optional<double> real_number(const std::string& text);

struct CommandLine {
  std::string command;    // "specdec info"
  std::string arguments;  // what follows it in the usage line
  std::string about;      // paragraphs, separated by newlines
  std::vector<Group> groups;
  std::vector<std::string> basics;  // names of the options that --help shows, --help-all shows all; none: both show all
  std::size_t num_positionals = 0;  // at most
  std::string positional_hint;      // for the error when there are more
};

enum class Help { none, basics, all };

struct Parsed {
  std::vector<std::string> positionals;
  Help help = Help::none;  // -h, --help or --help-all was given; everything else is ignored
};

// argv[0] is the first argument after the command. Takes --name VALUE, --name=VALUE and "--" (only positionals follow).
Parsed parse(const CommandLine& line, int argc, const char* const* argv);

// At most 80 columns wide. basics: fits a screen; of each option the first part of its text.
std::string help_text(const CommandLine& line, Help help);

// "; did you mean X?" for the candidate closest to `word`, or "" if none is close.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace specdec::cli
