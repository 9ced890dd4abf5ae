#include "cli/prompt_line.h"

#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "base/json_depth.h"
#include "base/suggestion.h"
#include "engine/request_json.h"

namespace specdec::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int max_depth = 100;  // levels of nesting; limited because writing JSON recurses

// The prompt may be a string or token ids.
void set_prompt(Request& request, const Json& json) {
  if (json.is_string()) {
    request.prompt = json.get<std::string>();
    return;
  }
  if (!json.is_array()) throw WrongValue("prompt", json.dump(), "a string or a list of token ids");
  for (const Json& token : json) {
    const bool fits = token.is_number_integer() && std::abs(token.get<double>()) <= INT32_MAX;
    if (!fits) throw WrongValue("a prompt token", token.dump(), "a whole number of at most 31 bits");
    request.prompt_tokens.push_back(token.get<Token>());
  }
}

std::string known_names() {
  std::string names = "prompt, id";
  for (const RequestOption& option : request_options()) names += ", " + option.name;
  return names;
}

std::string meant(const std::string& name) {
  for (const char* of_chats : {"tools", "tool_choice", "response_format"}) {
    if (name == of_chats) return ", which needs \"messages\" instead of a \"prompt\"";
  }
  std::vector<std::string> names = {"prompt", "messages", "id"};
  for (const RequestOption& option : request_options()) names.push_back(option.name);
  return suggestion(name, names);
}

}  // namespace

Json parse_line(const std::string& line) {
  if (json_depth(line) > max_depth) {
    throw std::invalid_argument("values nested more than " + std::to_string(max_depth) + " levels deep");
  }
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) throw std::invalid_argument("not JSON");
  if (json.is_object()) return json;
  const bool is_conversation = json.is_array() && !json.empty() && json[0].is_object();
  throw std::invalid_argument(std::string("not a JSON object with a \"prompt\" or \"messages\"") +
                              (is_conversation ? "; put the list into {\"messages\": [...]}" : ""));
}

PromptLine prompt_line(const Json& json, const Request& defaults) {
  if (!json.contains("prompt")) throw std::invalid_argument("not a JSON object with a \"prompt\" or \"messages\"");
  PromptLine result;
  result.request = defaults;
  for (const auto& [name, value] : json.items()) {
    if (name == "prompt") {
      set_prompt(result.request, value);
    } else if (name == "id") {
      result.id = value;
    } else if (const RequestOption* option = option::find(request_options(), name)) {
      set_option(result.request, *option, value);
    } else {
      throw std::invalid_argument("unknown option \"" + name + "\"" + meant(name) + "; options are " + known_names());
    }
  }
  result.request.validate();
  return result;
}

}  // namespace specdec::cli
