// specdec serve: the APIs of OpenAI, Anthropic and Ollama over HTTP.
#pragma once

#include "cli/options.h"

namespace specdec::cli {

CommandLine describe_serve();
int run_serve(int argc, const char* const* argv);

}  // namespace specdec::cli
