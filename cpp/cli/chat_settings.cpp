#include "cli/chat_settings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <variant>

#include "base/utf8.h"
#include "cli/options.h"
#include "cli/terminal/format.h"
#include "engine/request_json.h"

namespace specdec::cli {

using Json = nlohmann::ordered_json;

namespace {

constexpr const char* none = "none";
constexpr const char* color_name = "color";
constexpr std::size_t setting_label = 24;  // columns for the longest name and a space

// Names of other programs (Ollama) for our options.
constexpr const char* ollama_names[][2] = {
    {"num_predict", "max_tokens"}, {"num_ctx", "n_ctx"}, {"num_thread", "n_threads"}, {"num_gpu", "n_gpu_layers"}};

// The option's name in Python, and its flags without dashes.
std::vector<std::string> names_of(const option::Description& option) {
  std::vector<std::string> names = {option.name};
  for (const std::string& flag : option.flags.names) names.push_back(flag.substr(flag.find_first_not_of('-')));
  return names;
}

// Null if there is none.
template <class Owner>
const option::Option<Owner>* find_in(const option::Table<Owner>& table, const std::string& given) {
  std::string word = given.substr(std::min(given.size(), given.find_first_not_of('-')));
  for (const auto& [name, ours] : ollama_names) {
    if (word == name) word = ours;
  }
  for (const option::Option<Owner>& option : table) {
    const std::vector<std::string> names = names_of(option);
    if (std::find(names.begin(), names.end(), word) != names.end()) return &option;
  }
  return nullptr;
}

const RequestOption* find_option(const std::string& given) { return find_in(request_options(), given); }

// The text after the name in "name value", "name=value" or "name = value"; null: none.
std::optional<std::string> value_after(const std::string& text, std::size_t end) {
  std::size_t at = text.find_first_not_of(' ', end);
  if (at == std::string::npos) return std::nullopt;
  if (text[at] == '=') at = std::min(text.size(), text.find_first_not_of(' ', at + 1));
  return text.substr(at);
}

// Several texts as JSON: they may have commas.
std::string shown(const option::Value& value) {
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  if (texts != nullptr && texts->size() > 1) return Json(*texts).dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string text = option::text(value);
  return text.empty() ? none : printable(text);
}

}  // namespace

std::string ChatSettings::set(const std::string& text) {
  const std::size_t end = std::min(text.size(), text.find_first_of(" ="));
  const std::string name = text.substr(0, end);
  const std::optional<std::string> value = value_after(text, end);
  if (text.empty()) return all();
  if (name == "parameter") return set(value.value_or(""));
  if (name == color_name) {
    if (value && value != "on" && value != "off")
      return "color is \"" + printable(*value) + "\"; it must be on or off\n";
    if (value) color = value == "on";
    return color_line();
  }
  const RequestOption* option = find_option(name);
  if (option == nullptr) {
    if (const GeneratorOption* fixed = find_in(generator_options(), name)) return explain(*fixed);
    std::vector<std::string> known = names();
    for (const GeneratorOption& fixed : generator_options()) known.push_back(fixed.name);
    known.push_back("/system");  // an option of Ollama's /set
    const std::string meant = suggestion(name, known);
    return "there is no option " + printable(name) + (meant.empty() ? "; /set shows all" : meant) + "\n";
  }
  if (!value) return line(*option);
  try {
    Request changed = request;
    change(changed, *option, *value);
    changed.prompt = "?";
    changed.validate();
    request = changed;
    return line(*option);
  } catch (const std::invalid_argument& error) {
    return printable(error.what()) + "\n";
  }
}

// text: the value as JSON or as the command line's text, so that 5 may be a stop string; "none" resets the option.
void ChatSettings::change(Request& changed, const RequestOption& option, const std::string& text) const {
  if (is_constraint(option)) changed.drop_constraint();  // the last constraint counts
  const option::Value absent = option.get(Request{});
  if (text == none) return option.set(changed, option::text(absent).empty() ? absent : option.get(given_));
  if (!option.flags.word.empty() && text == option.flags.word) return option.set(changed, option.flags.word_value);
  const Json json = Json::parse(text, nullptr, false);
  const bool takes_list = std::holds_alternative<option::Texts>(option.type);
  const bool takes_text = takes_list || std::holds_alternative<option::String>(option.type);
  const bool is_json = !json.is_discarded() && (!takes_text || json.is_string() || (takes_list && json.is_array()));
  set_option(changed, option, is_json ? json : Json(text));
}

std::string ChatSettings::line(const RequestOption& row) const {
  return pad(row.name, setting_label) + shown(row.get(request)) + "\n";
}

// How an option is set that a running chat cannot change.
std::string ChatSettings::explain(const GeneratorOption& row) const {
  const std::string value = option::text(row.get(at_start_));
  std::string text =
      row.name + (value.empty() ? "" : " is " + printable(value) + "; it") + " can only be set when a chat starts";
  if (!row.flags.names.empty()) {
    text += ": specdec chat " + row.flags.names.front();
    if (!row.flags.placeholder.empty()) text += " " + row.flags.placeholder;
  }
  return text + "\n";
}

std::string ChatSettings::color_line() const { return pad(color_name, setting_label) + (color ? "on" : "off") + "\n"; }

std::string ChatSettings::all() const {
  std::string text;
  for (const RequestOption& row : request_options()) text += line(row);
  return text + color_line();
}

std::string ChatSettings::changed() const {
  std::string text;
  for (const RequestOption& row : request_options()) {
    if (option::text(row.get(request)) != option::text(row.get(defaults_))) text += line(row);
  }
  return text;
}

std::vector<std::string> ChatSettings::names() {
  std::vector<std::string> all = {color_name};
  for (const RequestOption& row : request_options()) {
    for (const std::string& name : names_of(row)) all.push_back(name);
  }
  return all;
}

std::vector<std::string> ChatSettings::values_of(const std::string& name) {
  if (name == color_name) return {"off", "on"};
  const RequestOption* option = find_option(name);
  const auto* choice = option == nullptr ? nullptr : std::get_if<option::Choice>(&option->type);
  return choice == nullptr ? std::vector<std::string>() : choice->names;
}

}  // namespace specdec::cli
