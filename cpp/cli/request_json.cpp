#include "cli/request_json.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

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

template <typename T>
T value_of(const std::string& name, const Json& json, bool is_right_type, const char* expected) {
  if (!is_right_type) throw std::invalid_argument("\"" + name + "\" is " + json.dump() + "; it must be " + expected);
  return json.get<T>();
}

std::string text_of(const std::string& name, const Json& json) { return value_of<std::string>(name, json, json.is_string(), "a text"); }

double number_of(const std::string& name, const Json& json) { return value_of<double>(name, json, json.is_number(), "a number"); }

int integer_of(const std::string& name, const Json& json) {
  const auto value = value_of<std::int64_t>(name, json, json.is_number_integer() && !(json.is_number_unsigned() && json > INT32_MAX),
                                            "a whole number of at most 31 bits");
  check_range(name.c_str(), value, INT32_MIN, INT32_MAX);
  return static_cast<int>(value);
}

std::vector<std::string> texts_of(const std::string& name, const Json& json) {
  if (json.is_string()) return {json.get<std::string>()};
  std::vector<std::string> texts;
  if (!json.is_array()) throw std::invalid_argument("\"" + name + "\" is " + json.dump() + "; it must be a text or a list of texts");
  for (const Json& text : json) texts.push_back(text_of(name, text));
  return texts;
}

std::vector<std::pair<Token, double>> biases_of(const std::string& name, const Json& json) {
  if (!json.is_object()) throw std::invalid_argument("\"" + name + "\" must be an object of token ids and numbers");
  std::vector<std::pair<Token, double>> biases;
  for (const auto& [token, bias] : json.items()) {
    if (token.empty() || token.size() > 9 || token.find_first_not_of("0123456789") != std::string::npos) {
      throw std::invalid_argument("\"" + name + "\" has the token id \"" + token + "\"; it must be a whole number");
    }
    // JSON has no infinity.
    biases.emplace_back(std::stoi(token), bias == "-inf" ? -std::numeric_limits<double>::infinity() : number_of(name, bias));
  }
  return biases;
}

std::uint64_t seed_of(const std::string& name, const Json& json) {
  return value_of<std::uint64_t>(name, json, json.is_number_unsigned(), "a whole number from 0 to 2^64 - 1");
}

int draft_tokens_of(const std::string& name, const Json& json) {
  if (json == "auto") return auto_draft_tokens;
  const int value = integer_of(name, json);
  check_range(name.c_str(), value, 0, max_draft_tokens);
  return value;
}

// A text, or token ids.
void set_prompt(RequestLine& line, const std::string& name, const Json& json) {
  if (!json.is_array()) {
    line.request.prompt = value_of<std::string>(name, json, json.is_string(), "a text or a list of token ids");
    return;
  }
  for (const Json& token : json) line.request.prompt_tokens.push_back(integer_of(name, token));
}

using Setter = std::function<void(RequestLine& line, const std::string& name, const Json& json)>;

template <typename Convert, typename Field>
Setter of_request(Field Request::* field, Convert convert) {
  return [=](RequestLine& line, const std::string& name, const Json& json) { line.request.*field = convert(name, json); };
}
template <typename Convert, typename Field>
Setter of_sampling(Field sampling::SamplingParams::* field, Convert convert) {
  return [=](RequestLine& line, const std::string& name, const Json& json) { line.request.sampling.*field = convert(name, json); };
}

const std::map<std::string, Setter>& setters() {
  using sampling::SamplingParams;
  static const std::map<std::string, Setter> all = {
      {"prompt", set_prompt},
      {"id", [](RequestLine& line, const std::string&, const Json& json) { line.id = json; }},
      {"max_tokens", of_request(&Request::max_tokens, integer_of)},
      {"temperature", of_sampling(&SamplingParams::temperature, number_of)},
      {"top_k", of_sampling(&SamplingParams::top_k, integer_of)},
      {"top_p", of_sampling(&SamplingParams::top_p, number_of)},
      {"min_p", of_sampling(&SamplingParams::min_p, number_of)},
      {"repeat_penalty", of_sampling(&SamplingParams::repeat_penalty, number_of)},
      {"frequency_penalty", of_sampling(&SamplingParams::frequency_penalty, number_of)},
      {"presence_penalty", of_sampling(&SamplingParams::presence_penalty, number_of)},
      {"penalty_last_n", of_sampling(&SamplingParams::penalty_last_n, integer_of)},
      {"logit_bias", of_sampling(&SamplingParams::logit_bias, biases_of)},
      {"stop", of_request(&Request::stop, texts_of)},
      {"seed", of_request(&Request::seed, seed_of)},
      {"num_draft_tokens", of_request(&Request::num_draft_tokens, draft_tokens_of)},
      {"verification", of_request(&Request::verification,
                                  [](const std::string& name, const Json& json) { return verification_named(text_of(name, json)); })},
      {"drafting",
       of_request(&Request::drafting, [](const std::string& name, const Json& json) { return drafting_named(text_of(name, json)); })},
  };
  return all;
}

std::string known_names() {
  std::string names;
  for (const auto& [name, setter] : setters()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

RequestLine parse_request(const std::string& line, const Request& defaults) {
  if (depth_of(line) > max_depth) {
    throw std::invalid_argument("values more than " + std::to_string(max_depth) + " deep in each other");
  }
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) throw std::invalid_argument("not JSON");
  if (!json.is_object() || !json.contains("prompt")) throw std::invalid_argument("not a JSON object with a \"prompt\"");
  RequestLine result;
  result.request = defaults;
  for (const auto& [name, value] : json.items()) {
    const auto setter = setters().find(name);
    if (setter == setters().end()) throw std::invalid_argument("unknown option \"" + name + "\"; there are " + known_names());
    if (value.is_null() && name != "prompt") continue;  // not given, as Python's None
    setter->second(result, name, value);
  }
  result.request.validate();
  return result;
}

}  // namespace specdec::cli
