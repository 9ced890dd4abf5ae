// What /set changes in a chat: the options of requests, and the colour of answers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/request_options.h"

namespace specdec::cli {

class ChatSettings {
 public:
  // defaults: a chat's; given: by the command line.
  ChatSettings(Request defaults, Request given, bool is_colored)
      : request(given), color(is_colored), defaults_(std::move(defaults)), given_(std::move(given)) {}

  Request request;
  bool color;

  // "NAME VALUE": an option by its name in Python or a flag; "none" takes it back. Without a value: shows it; without
  // either: all. Returns what is to be told.
  std::string set(const std::string& text);
  // A line for each option that differs from its default.
  std::string changed() const;

  static std::vector<std::string> names();                             // of options
  static std::vector<std::string> values_of(const std::string& name);  // if it takes one of a few words

 private:
  std::string line(const RequestOption& row) const;
  std::string color_line() const;
  std::string all() const;
  void change(Request& request, const RequestOption& option, const std::string& text) const;

  Request defaults_, given_;
};

}  // namespace specdec::cli
