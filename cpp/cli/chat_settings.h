// The settings that /set changes in a chat: options of requests, and the colour of answers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/generator_options.h"
#include "engine/request_options.h"

namespace specdec::cli {

class ChatSettings {
 public:
  // defaults: those of a chat. given: those of the command line. at_start: what only the command line can set.
  ChatSettings(Request defaults, Request given, GeneratorOptions at_start, bool is_colored)
      : request(given),
        color(is_colored),
        defaults_(std::move(defaults)),
        given_(std::move(given)),
        at_start_(std::move(at_start)) {}

  Request request;
  bool color;

  // "NAME VALUE" sets an option, named as in Python or by a flag; the value "none" resets it. "NAME" shows it, and ""
  // shows all. As in Ollama, the word "parameter" may come first. Returns the text to show.
  std::string set(const std::string& text);
  // A line for each option that differs from its default.
  std::string changed() const;

  static std::vector<std::string> names();                             // of options
  static std::vector<std::string> values_of(const std::string& name);  // if the option takes one of a few words

 private:
  std::string line(const RequestOption& row) const;
  std::string color_line() const;
  std::string all() const;
  void change(Request& request, const RequestOption& option, const std::string& text) const;

  std::string explain(const GeneratorOption& row) const;

  Request defaults_, given_;
  GeneratorOptions at_start_;
};

}  // namespace specdec::cli
