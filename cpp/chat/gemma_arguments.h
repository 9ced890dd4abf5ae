// Arguments as Gemma 4 writes them, {key:<|"|>text<|"|>,list:[1,true]}, as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "chat/chat_output.h"
#include "chat/json_scan.h"

namespace specdec {

struct GemmaArguments {
  Found found = Found::more;
  std::size_t end = 0;  // behind the arguments, if found is yes
  std::string json;     // while they are unfinished only what is certain: the beginning of every later result
};

// The arguments that begin at this byte, with a brace. closing: the mark that ends a call; they end before it at the
// latest, unless it is in a string. Values that are neither JSON nor in quotes become strings.
GemmaArguments gemma_arguments(const std::string& text, std::size_t at, const std::string& closing, AnswerEnd end);

}  // namespace specdec
