// A conversation as a prompt for Python, with the parser of its answer.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "chat/chat_output.h"
#include "engine/request.h"

struct ChatPrompt {
  specdec::Request request;                                 // with its options
  std::shared_ptr<const specdec::ChatOutputParser> parser;  // null: the whole answer is content
};

void register_chat_prompt(pybind11::module_& m);
