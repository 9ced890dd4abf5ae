// The prompts of completions: a string, a list of token ids, or a list of both; or several prompts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/json_body.h"
#include "server/service.h"

namespace specdec::server {

struct Prompt {
  std::string text;           // one of both
  std::vector<Token> tokens;  // used if not empty

  void put_into(Request& request) const;
};

struct Prompts {
  std::vector<Prompt> prompts;
  bool is_list = false;  // several were asked for, if only one is there
};

// field: "prompt". A prompt is "text", [1, 2, 3], [1, "text", 2], or {"prompt_string": "text"}.
Prompts read_prompts(const Service& service, const Fields& body, const std::string& field);

}  // namespace specdec::server
