// What a template's answers look like, and the functions that they may call.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "chat/argument_types.h"
#include "chat/call_form.h"
#include "chat/chat_output.h"

namespace specdec {

struct AnswerForm {
  std::string reasoning_begin;  // empty: reasoning is not marked
  std::vector<std::string> reasoning_ends;
  bool is_reasoning_open = false;  // the answer begins inside reasoning
  bool may_reason_later = false;   // also after text (Gemma 4)

  // The answer is a list of messages, each with a header: <|channel|>final<|message|>text<|end|> (gpt-oss), or
  // to=user<|message|>text<|eom|> (Muse).
  bool has_messages = false;

  ContentForm content;
  CallForm calls;  // of shape none without tools
  std::map<std::string, std::map<std::string, ArgumentTypes>> functions;
  bool is_parallel = true;
  bool reads_json_calls = false;

  // For calls of shape `other`: the calls that begin at this byte and where they end. is_whole: no more text comes.
  enum class Reading { none, unfinished, calls };
  struct OtherCalls {
    Reading reading = Reading::none;
    std::size_t end = 0;
    std::vector<ToolCall> calls;
  };
  std::function<OtherCalls(const std::string& text, std::size_t at, bool is_whole)> read_other;
};

}  // namespace specdec
