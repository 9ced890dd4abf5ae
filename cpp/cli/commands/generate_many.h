// `specdec generate --prompts`: a file of prompts in, a file of texts out, several at once.
#pragma once

#include <string>

#include "engine/generator.h"

namespace specdec::cli {

struct ManyOptions {
  std::string prompts, output;  // paths of JSON Lines; prompts "-": standard input
  bool force = false;           // write over an output that is there
};

// defaults: of requests that do not say otherwise. Returns the exit code: 1 if a request failed.
int generate_many(GeneratorOptions options, Request defaults, ManyOptions files);

}  // namespace specdec::cli
