#include "server/request_fields.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "engine/request_constraints.h"
#include "engine/request_json.h"
#include "engine/request_options.h"
#include "server/known_fields.h"
#include "server/tokens.h"

namespace specdec::server {
namespace {

// Fields that are another name of an option.
struct OtherName {
  const char* field;
  const char* option;
};
constexpr OtherName other_names[] = {
    {"max_completion_tokens", "max_tokens"},
    {"n_predict", "max_tokens"},
    {"num_predict", "max_tokens"},  // Ollama's
    {"stop_sequences", "stop"},     // Anthropic's
    {"max_output_tokens", "max_tokens"},
    {"repeat_last_n", "penalty_last_n"},
    {"speculative.n_max", "num_draft_tokens"},
    {"n_probs", "top_logprobs"},
    {"repetition_penalty", "repeat_penalty"},
    {"guided_json", "json_schema"},
    {"guided_regex", "regex"},
    {"guided_grammar", "grammar"},
    {"ebnf", "grammar"},
    {"min_new_tokens", "min_tokens"},
    {"reasoning_budget_tokens", "reasoning_budget"},
    {"thinking_budget_tokens", "reasoning_budget"},
    {"thinking_token_budget", "reasoning_budget"},  // vLLM's
};

// Unsupported fields that would change the text or the reply. 0, false and empty values turn them off.
constexpr const char* unsupported_fields[] = {
    "dynatemp_range",
    "guided_whitespace_pattern",
    "logits_processors",
    "mirostat",
    "stop_regex",
    "top_n_sigma",
    "use_beam_search",
    "adaptive_target",
    "min_keep",
    "n_indent",
    "lora",
    "post_sampling_probs",
    "include_stop_str_in_output",
    "prompt_logprobs",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "echo_prompt",
    "functions",
    "function_call",
    "audio",
    "web_search_options",
    "background",
    "conversation",
};
// Fields with only one supported value.
struct OnlyValue {
  const char* field;
  const char* value;  // in JSON
};
constexpr OnlyValue only_values[] = {
    {"typical_p", "1"},
    {"typ_p", "1"},
    {"tfs_z", "1"},
    {"t_max_predict_ms", "-1"},
    {"modalities", R"(["text"])"},
    {"skip_special_tokens", "true"},
    {"spaces_between_special_tokens", "true"},
    {"detokenize", "true"},
    {"include_reasoning", "true"},
    {"separate_reasoning", "true"},
    {"stream_reasoning", "true"},
    {"samplers", R"(["penalties","dry","top_n_sigma","top_k","typ_p","top_p","min_p","xtc","temperature"])"},
};

constexpr const char* ban = "-inf";

// The bias of one token: a number, or false for a banned token (llama-server).
Json bias_of(const Json& given) { return given == false ? Json(ban) : given; }

// Converts logit_bias to the form of the options' table, {"15043": 1.5}. llama-server also accepts [[15043, 1.5],
// ["text", -1]] and {"text": 1.5}; a text's bias applies to each of its tokens.
Json token_biases(const Generator& generator, const std::string& field, const Json& given) {
  const std::string requirement = "an object {\"token id or text\": bias} or a list of [token id or text, bias]";
  std::map<std::string, Json> biases;  // sorted: an ordered object searches all names for each new one
  const auto add = [&](const std::string& text, const Json& bias) {
    for (const Token token : tokens_of(generator, text, {})) biases[std::to_string(token)] = bias_of(bias);
  };
  const auto is_id = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (given.is_object()) {
    for (const auto& [name, bias] : given.items()) {
      if (is_id(name)) biases[name] = bias_of(bias);
      else add(name, bias);
    }
  } else if (given.is_array()) {
    for (const Json& pair : given) {
      if (!pair.is_array() || pair.size() != 2) throw wrong_value(field, given, requirement);
      if (pair[0].is_number_unsigned()) biases[std::to_string(pair[0].get<std::uint64_t>())] = bias_of(pair[1]);
      else if (pair[0].is_string()) add(pair[0].get<std::string>(), pair[1]);
      else throw wrong_value(field, given, requirement);
    }
  } else if (given != false) {  // llama-server's value for none
    throw wrong_value(field, given, requirement);
  }
  Json result = Json::object();
  auto& members = static_cast<std::vector<Json::object_t::value_type>&>(result.get_ref<Json::object_t&>());
  for (auto& [name, bias] : biases) members.emplace_back(name, std::move(bias));
  return result;
}

// The text of OpenAI's prediction, {"type": "content", "content": text or parts}.
Json predicted_text(const std::string& field, const Json& given) {
  if (given.is_string()) return given;
  const Fields prediction(given, field);
  const std::string type = prediction.required_text("type");
  if (type != "content") throw wrong_value(prediction.path("type"), type, "\"content\"");
  const Json& content = prediction.required("content");
  if (content.is_string()) return content;
  if (!content.is_array()) throw wrong_value(prediction.path("content"), content, "a string or a list of text parts");
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Fields part(content[i], prediction.path("content") + "[" + std::to_string(i) + "]");
    if (part.required_text("type") != "text")
      throw wrong_value(part.path("type"), part.required_text("type"), "\"text\"");
    text += part.required_text("text");
  }
  return text;
}

// Called before `field` adds a constraint.
void check_no_constraint(const Request& request, const std::string& field) {
  const char* other = request.constraint();
  if (other != nullptr)
    throw invalid_request(field, field + " and " + other + " both constrain the text; give one of them");
}

// Converts values to which OpenAI or llama-server give another form or meaning.
Json adapted(const Generator& generator, const std::string& option, const std::string& field, const Json& given) {
  Json value = whole_number(given);
  const bool is_negative = value.is_number_integer() && !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  const bool is_minus_one = is_negative && value.get<std::int64_t>() == -1;  // not 2^64 - 1, which == takes for it
  if (option == "max_tokens" && is_minus_one)
    return std::numeric_limits<int>::max();              // until the end of the text or the context
  if (option == "seed" && is_minus_one) return nullptr;  // a random one
  if (option == "seed" && is_negative) return static_cast<std::uint64_t>(value.get<std::int64_t>());
  if (option == "top_k" && is_negative) return 0;  // off
  const bool is_empty_text = value.is_string() && value.get_ref<const std::string&>().empty();
  const bool may_be_empty = option == "grammar" || option == "json_schema" || option == "structural_tag";
  if (may_be_empty && is_empty_text) return nullptr;  // none
  if (may_be_empty && value.is_string()) check_json_text(field, value.get_ref<const std::string&>());
  if (option == "logit_bias") return token_biases(generator, field, value);
  if (option == "prediction") return predicted_text(field, value);
  return value;
}

void set(const Service& service, Request& request, const RequestOption& option, const Fields& body,
         const std::string& field) {
  const Json* value = body.find(field);
  if (value == nullptr) return;
  try {
    const Json json = adapted(service.generator(), option.name, field, *value);
    if (json.is_null() && option.name == "seed") request.seed.reset();
    if (!json.is_null() && is_constraint(option)) check_no_constraint(request, body.path(field));
    set_option(request, option, json);
    if (!json.is_null() && is_constraint(option)) request.constraint_name = body.path(field);
  } catch (const WrongValue& error) {
    throw wrong_value(body.path(field), *value, error.requirement());
  } catch (const std::invalid_argument& error) {
    throw invalid_request(body.path(field), error.what());
  }
}

std::vector<std::string> fields_of(const RequestOption& option) {
  std::vector<std::string> fields = {option.name};
  for (const OtherName& other : other_names) {
    if (option.name == other.option) fields.emplace_back(other.field);
  }
  return fields;
}

bool is_off(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value == false || value == 0 || ((value.is_array() || value.is_object()) && value.empty());
}

void check_fields(const Fields& body) {
  for (const char* field : unsupported_fields) {
    const Json* value = body.find(field);
    if (value != nullptr && !is_off(*value))
      throw invalid_request(body.path(field), body.path(field) + " is not supported by this server; leave it out");
  }
  const auto check_only = [&](const char* field, const char* only) {
    const Json* value = body.find(field);
    if (value != nullptr && *value != Json::parse(only))
      throw wrong_value(body.path(field), *value, std::string(only) + ": others are not supported; leave it out");
  };
  for (const OnlyValue& one : only_values) check_only(one.field, one.value);
  if (body.find("prompt") != nullptr) check_only("add_special_tokens", "true");  // for chats, the template writes them
  if (body.text("reasoning_format", "") == "none") check_only("reasoning_format", "\"auto\"");
}

// The names of all options, and further ones.
const std::set<std::string>& names_of_options() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const RequestOption& option : request_options()) {
      for (const std::string& name : fields_of(option)) all.insert(name);
    }
    return all;
  }();
  return names;
}

// Fields that nothing here knows may be misspelled: the log names them, and with --strict-fields they are errors.
void check_known_fields(const Fields& body, bool is_strict, RequestRecord* record) {
  constexpr std::size_t most = 16;
  for (const std::string& field : body.names()) {
    if (is_known_field(field) || names_of_options().count(field) > 0) continue;
    if (is_strict)
      throw invalid_request(body.path(field), body.path(field) + " is an unknown field; correct or remove it");
    if (record != nullptr && record->unknown_fields.size() < most) record->unknown_fields.push_back(body.path(field));
  }
}

// Rejects two names of one option with different values.
void check_same(const Fields& body, const std::vector<std::string>& fields) {
  const Json* first = nullptr;
  for (const std::string& field : fields) {
    const Json* value = body.find(field);
    if (first != nullptr && value != nullptr && *value != *first) {
      throw invalid_request(body.path(field),
                            body.path(field) + " is given twice, under two names with different values; give one of " +
                                fields[0] + " and " + field);
    }
    if (first == nullptr) first = value;
  }
}

// vLLM's choices: the text is one of these.
void set_choices(const Service& service, Request& request, const std::string& path, const Json& choices) {
  std::vector<std::string> texts;
  for (const Json& choice : choices.is_array() ? choices : Json::array()) {
    if (choice.is_string() && !choice.get_ref<const std::string&>().empty()) texts.push_back(choice.get<std::string>());
  }
  if (texts.empty() || texts.size() != choices.size())
    throw wrong_value(path, choices, "a list of texts, none of them empty");
  check_no_constraint(request, path);
  const Json wrapped = {{"choice", texts}};
  set(service, request, *option::find(request_options(), "choice"), Fields(wrapped), "choice");
  request.constraint_name = path;
}

// vLLM's and SGLang's format {"type": "structural_tag", ...}.
void set_structural_tag(const Service& service, Request& request, const Fields& format) {
  const Json wrapped = {{"structural_tag", format.object()}};
  set(service, request, *option::find(request_options(), "structural_tag"), Fields(wrapped), "structural_tag");
  request.constraint_name = format.path();
}

}  // namespace

void set_schema(const Service& service, Request& request, const std::string& path, const Json& schema, bool is_strict) {
  if (!schema.is_object()) throw wrong_value(path, schema, "a JSON schema, an object");
  check_no_constraint(request, path);
  const Json wrapped = {{"json_schema", schema}};
  set(service, request, *option::find(request_options(), "json_schema"), Fields(wrapped), "json_schema");
  request.strict_schema = is_strict && request.strict_schema;
  request.constraint_name = path;
}

void read_format(const Service& service, Request& request, const Fields& format) {
  const std::string type = format.required_text("type");
  if (type == "text") return;
  check_no_constraint(request, format.path("type"));
  if (type == "json_object") {
    const Json* schema = format.find("schema");  // llama-server's
    return set_schema(service, request, format.path("schema"),
                      schema != nullptr ? *schema : Json({{"type", "object"}}));
  }
  if (type == "structural_tag") return set_structural_tag(service, request, format);
  if (type != "json_schema")
    throw wrong_value(format.path("type"), type, R"("text", "json_object", "json_schema" or "structural_tag")");
  const Json* schema = format.find("schema");  // in a response's form
  if (schema != nullptr)
    return set_schema(service, request, format.path("schema"), *schema, format.flag("strict", true));
  const Fields described(format.required("json_schema"), format.path("json_schema"));
  set_schema(service, request, described.path("schema"), described.required("schema"), described.flag("strict", true));
}

// Reads vLLM's "structured_outputs": one of {"json": ...}, {"regex": ...}, {"grammar": ...}, {"choice": [...]},
// {"json_object": true}, {"structural_tag": {...}}.
void read_structured_outputs(const Service& service, Request& request, const Fields& form) {
  constexpr OtherName names[] = {
      {"json", "json_schema"}, {"regex", "regex"}, {"grammar", "grammar"}, {"structural_tag", "structural_tag"}};
  for (const auto& [field, option] : names)
    set(service, request, *option::find(request_options(), option), form, field);
  if (const Json* choices = form.find("choice")) set_choices(service, request, form.path("choice"), *choices);
  if (form.flag("json_object", false)) set_schema(service, request, form.path("json_object"), {{"type", "object"}});
  if (form.find("whitespace_pattern") != nullptr) {
    const std::string path = form.path("whitespace_pattern");
    throw invalid_request(path, path + " is not supported by this server; leave it out");
  }
}

void name_ignored_keywords(const Request& request, HttpReply& reply) {
  constexpr std::size_t most = 100;
  std::vector<std::string> places = ignored_keywords(request);
  if (request.call) places.insert(places.end(), request.call->ignored.begin(), request.call->ignored.end());
  if (places.empty()) return;
  if (places.size() > most) places.resize(most);
  reply.headers.emplace_back(ignored_keywords_header, Json(places).dump(-1, ' ', true));
}

Request read_options(const Service& service, const Fields& body, RequestRecord* record) {
  Request request = service.options().defaults;
  check_fields(body);
  check_known_fields(body, service.options().has_strict_fields, record);
  for (const RequestOption& option : request_options()) {
    const std::vector<std::string> fields = fields_of(option);
    check_same(body, fields);
    for (const std::string& field : fields) set(service, request, option, body, field);
  }
  if (service.options().limits_tokens)
    request.max_tokens = std::min(request.max_tokens, service.options().defaults.max_tokens);
  const int slot = body.whole("id_slot", -1, -1, service.generator().max_sequences() - 1);
  if (slot >= 0) request.slot = slot;
  const bool says_how_many = body.find("repeat_last_n") != nullptr || body.find("penalty_last_n") != nullptr;
  if (body.find("repetition_penalty") != nullptr && !says_how_many)
    request.sampling.penalty_last_n = -1;  // all tokens of the prompt and the answer
  if (const Json* choices = body.find("guided_choice"))
    set_choices(service, request, body.path("guided_choice"), *choices);
  if (const Json* form = body.find("structured_outputs")) {
    read_structured_outputs(service, request, Fields(*form, body.path("structured_outputs")));
  }
  if (const Json* format = body.find("response_format"))
    read_format(service, request, Fields(*format, body.path("response_format")));
  return request;
}

ReplyOptions read_stream_options(const Fields& body) {
  ReplyOptions options;
  options.stream = body.flag("stream", false);
  const Json* more = body.find("stream_options");
  if (more == nullptr) return options;
  if (!options.stream) throw invalid_request("stream_options", "stream_options needs stream: true");
  options.include_usage = Fields(*more, "stream_options").flag("include_usage", false);
  return options;
}

int read_num_choices(const Service& service, const Fields& body) {
  constexpr int most = 128;
  check_same(body, {"n", "n_cmpl"});
  return body.whole(body.find("n") != nullptr ? "n" : "n_cmpl", 1, 1,
                    std::min(most, static_cast<int>(service.capacity())));
}

}  // namespace specdec::server
