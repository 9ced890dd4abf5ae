// The prompts of completions: a string, a list of token ids, or a list of both; or several prompts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

struct Prompt {
  std::string text;           // either text or tokens
  std::vector<Token> tokens;  // used if not empty
  PictureFiles pictures;      // whose marks stand in the text

  void put_into(Request& request) const;
};

struct Prompts {
  std::vector<Prompt> prompts;
  bool is_list = false;  // the field is a list, even if it has only one prompt
};

// Reads the field "prompt". A prompt is "text", [1, 2, 3], [1, "text", 2], or {"prompt_string": "text with
// <__media__> for each picture", "multimodal_data": [base64, ...]}. answers_each:
// answers to every prompt; the server must have room for all of them.
Prompts read_prompts(const Service& service, const Fields& body, int answers_each);

}  // namespace specdec::server
