// `specdec generate --prompts`: continues all prompts of a file, several at a time, and writes a file of results.
#pragma once

#include <string>

#include "engine/generator.h"

namespace specdec::cli {

struct ManyOptions {
  std::string prompts, output;  // paths of JSON Lines; prompts "-": standard input
  bool force = false;           // overwrite an existing output
  int chat_tokens = 0;          // the limit of an answer to a conversation, unless its line has one
};

// defaults: the options that a line does not set. Returns the exit code: 1 if a request failed.
int generate_many(GeneratorOptions options, Request defaults, ManyOptions files);

}  // namespace specdec::cli
