#include "cli/prompt_line.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "engine/request_json.h"

namespace specdec::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int max_depth = 100;  // levels of nesting; limited because writing JSON recurses

// The nesting depth of JSON text; meaningless for other text.
int depth_of(const std::string& json) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    else if (in_string) i += c == '\\' ? 1 : 0;
    else if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    else if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

// A string, or token ids.
void set_prompt(Request& request, const Json& json) {
  if (json.is_string()) {
    request.prompt = json.get<std::string>();
    return;
  }
  if (!json.is_array()) throw ArgumentError("prompt", json.dump(), "a string or a list of token ids");
  for (const Json& token : json) {
    const bool fits = token.is_number_integer() && std::abs(token.get<double>()) <= INT32_MAX;
    if (!fits) throw ArgumentError("a prompt token", token.dump(), "a whole number of at most 31 bits");
    request.prompt_tokens.push_back(token.get<Token>());
  }
}

std::string known_names() {
  std::string names = "prompt, id";
  for (const RequestOption& option : request_options()) names += ", " + option.name;
  return names;
}

}  // namespace

PromptLine parse_prompt_line(const std::string& line, const Request& defaults) {
  if (depth_of(line) > max_depth) {
    throw std::invalid_argument("values nested more than " + std::to_string(max_depth) + " levels deep");
  }
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) throw std::invalid_argument("not JSON");
  if (!json.is_object() || !json.contains("prompt")) throw std::invalid_argument("not a JSON object with a \"prompt\"");
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
      throw std::invalid_argument("unknown option \"" + name + "\"; options are " + known_names());
    }
  }
  result.request.validate();
  return result;
}

}  // namespace specdec::cli
