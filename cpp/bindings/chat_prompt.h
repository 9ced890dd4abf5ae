// A conversation as a prompt for Python, and how to take its answer apart.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "chat/chat_output.h"
#include "engine/request.h"

struct ChatPrompt {
  specdec::Request request;                                 // with its options
  std::shared_ptr<const specdec::ChatOutputParser> parser;  // null: all of the answer is content
};

void register_chat_prompt(pybind11::module_& m);
