#include "cli/command_table.h"

#include "cli/commands/bench.h"
#include "cli/commands/chat.h"
#include "cli/commands/completions.h"
#include "cli/commands/generate.h"
#include "cli/commands/info.h"
#include "cli/commands/models.h"
#include "cli/commands/perplexity.h"
#include "cli/commands/quantize.h"
#include "cli/commands/race.h"
#include "cli/commands/rpc_server.h"
#include "cli/commands/serve.h"

namespace specdec::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"bench", "measure tokens per second without and with a draft", run_bench, describe_bench},
      {"chat", "chat with a model in the terminal", run_chat, describe_chat},
      {"completions", "write completions for shells, and manual pages", run_completions, describe_completions},
      {"generate", "continue a prompt with speculative decoding", run_generate, describe_generate},
      {"info", "show what is in a model's file, or what a draft would gain", run_info, describe_info},
      {"models", "list, download and remove models of the Hugging Face hub", run_models, describe_models},
      {"perplexity", "measure perplexity, and KL divergence from another model", run_perplexity, describe_perplexity},
      {"quantize", "quantize a model to MXFP6, 6.25 bits per weight", run_quantize, describe_quantize},
      {"race", "show generation without and with a draft, side by side", run_race, describe_race},
      {"rpc-server", "run layers of a model for another machine (--rpc)", run_rpc_server, describe_rpc_server},
      {"serve", "serve the APIs of OpenAI, Anthropic and Ollama over HTTP", run_serve, describe_serve},
  };
  return table;
}

const Command* find_command(const std::string& name) {
  for (const Command& command : commands()) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

}  // namespace specdec::cli
