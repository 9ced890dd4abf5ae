#include "server/prompts.h"

#include <algorithm>

#include "base/index.h"
#include "server/picture_parts.h"
#include "server/tokens.h"

namespace specdec::server {
namespace {

bool is_number(const Json& json) { return json.is_number(); }

Prompt mixed_prompt(const Service& service, const std::string& path, const Json& json) {
  Prompt prompt;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const Json& part = json[i];
    if (part.is_number()) {
      prompt.tokens.push_back(read_token(service.generator(), path + "[" + std::to_string(i) + "]", part));
    } else if (part.is_string()) {
      TokenizeOptions options;
      if (i == 0) options.part = json.size() == 1 ? Vocabulary::Part::whole : Vocabulary::Part::beginning;
      const std::vector<Token> more = tokens_of(service.generator(), part.get<std::string>(), options);
      prompt.tokens.insert(prompt.tokens.end(), more.begin(), more.end());
    } else {
      throw wrong_value(path + "[" + std::to_string(i) + "]", part, "a token id or a string");
    }
  }
  return prompt;
}

// llama-server's form.
void read_pictures(const Service& service, const Fields& fields, const Json& pictures, Prompt& prompt) {
  const std::string path = fields.path("multimodal_data"), media = "<__media__>";
  if (!pictures.is_array()) throw wrong_value(path, pictures, "a list of pictures in base64");
  std::size_t at = 0;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const std::string place = path + "[" + std::to_string(i) + "]";
    if (!pictures[i].is_string()) throw wrong_value(place, pictures[i], "a picture in base64");
    at = prompt.text.find(media, at);
    if (at == std::string::npos) {
      throw invalid_request(fields.path("prompt_string"), fields.path("prompt_string") + " has " + media + " " +
                                                              std::to_string(i) + " times, and there are " +
                                                              std::to_string(pictures.size()) + " pictures");
    }
    prompt.text.replace(at, media.size(), picture_mark(i));
    prompt.pictures.push_back(read_picture(service, place, pictures[i].get<std::string>()));
  }
}

Prompt read_prompt(const Service& service, const std::string& path, const Json& json) {
  if (json.is_string()) return {json.get<std::string>(), {}, {}};
  if (json.is_array() && !json.empty()) return mixed_prompt(service, path, json);
  if (!json.is_object()) throw wrong_value(path, json, "a string or a list of token ids");
  const Fields fields(json, path);
  Prompt prompt{fields.required_text("prompt_string"), {}, {}};
  if (const Json* pictures = fields.find("multimodal_data"); pictures != nullptr && !pictures->empty())
    read_pictures(service, fields, *pictures, prompt);
  return prompt;
}

}  // namespace

void Prompt::put_into(Request& request) const {
  request.prompt = text;
  request.prompt_tokens = tokens;
  request.picture_files = pictures;
}

Prompts read_prompts(const Service& service, const Fields& body, int answers_each) {
  const Json& json = body.required("prompt");
  const std::string path = body.path("prompt");
  Prompts result;
  result.is_list = json.is_array() && !json.empty() && std::none_of(json.begin(), json.end(), is_number);
  const std::size_t num_answers = (result.is_list ? json.size() : 1) * idx(answers_each);
  if (num_answers > service.capacity()) {
    throw invalid_request(path, path + " asks for " + std::to_string(num_answers) +
                                    " answers; this server runs and queues at most " +
                                    std::to_string(service.capacity()));
  }
  if (!result.is_list) {
    result.prompts.push_back(read_prompt(service, path, json));
  } else {
    for (std::size_t i = 0; i < json.size(); ++i) {
      result.prompts.push_back(read_prompt(service, path + "[" + std::to_string(i) + "]", json[i]));
    }
  }
  for (const Prompt& prompt : result.prompts) {
    if (prompt.text.empty() && prompt.tokens.empty())
      throw invalid_request(path, path + " is empty; it must have at least one character or token");
  }
  return result;
}

}  // namespace specdec::server
