#include "cli/generator_options.h"

#include <climits>
#include <filesystem>
#include <limits>
#include <random>
#include <system_error>

#include "cli/terminal/format.h"
#include "cli/terminal/output.h"
#include "engine/bundled_models.h"
#include "engine/memory.h"
#include "platform/executable.h"
#include "platform/huge_pages.h"

namespace specdec::cli {
namespace {

namespace fs = std::filesystem;

// llama.cpp's notation: TOKEN_ID+BIAS or TOKEN_ID-BIAS; -inf bans the token.
std::pair<Token, double> parse_logit_bias(const std::string& text) {
  const std::size_t sign = text.find_first_of("+-");
  if (sign == std::string::npos) throw UsageError("expected TOKEN_ID+BIAS or TOKEN_ID-BIAS, got \"" + text + "\"");
  const auto token = static_cast<Token>(parse_integer(text.substr(0, sign), 0, INT_MAX));
  const std::string bias = text.substr(sign);
  if (bias == "-inf") return {token, -std::numeric_limits<double>::infinity()};
  return {token, parse_real(bias[0] == '+' ? bias.substr(1) : bias, {})};
}

// Beside the program (a copy, the build tree), or in the Python package that the program was installed with.
std::vector<std::string> model_folders() {
  const fs::path folder = executable_path().parent_path();
  std::vector<std::string> folders = {(folder / "models").string(), folder.string()};
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.parent_path() / "lib", ignored)) {
    if (entry.path().filename().string().compare(0, 6, "python") != 0) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path models = entry.path() / packages / "specdec_native" / "models";
      if (fs::exists(models, ignored)) folders.push_back(models.string());
    }
  }
  return folders;
}

// A pass takes about as long as reading its weights.
void warn_of_large_draft(const GeneratorOptions& options) {
  if (options.draft.empty() || options.draft == "ngram") return;
  const std::uint64_t target = model_bytes(options.target), draft = model_bytes(options.draft);
  if (draft <= target) return;
  note("warning: the draft " + options.draft + " (" + size_text(draft) + ") is larger than the target " + options.target + " (" +
       size_text(target) + "); text will come later than without a draft\n");
}

}  // namespace

Group model_group(GeneratorOptions& options) {
  const auto set_draft_tokens = [&options](const std::string& text) {
    try {
      options.num_draft_tokens = text == "auto" ? auto_draft_tokens : static_cast<int>(parse_integer(text, 0, max_draft_tokens));
    } catch (const UsageError&) {
      throw UsageError("expected a whole number from 0 to " + std::to_string(max_draft_tokens) + " or auto, got \"" + text + "\"");
    }
  };
  const auto set_rpc = [&options](const std::string& text) {
    options.rpc_servers.clear();
    for (std::size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
      end = text.find(',', start);
      options.rpc_servers.push_back(text.substr(start, end - start));
    }
  };
  return {"Models",
          {
              text({"-m", "--model"}, "FILE", options.target, "target model, GGUF (default: the bundled pair)"),
              text({"-md", "--model-draft", "--spec-draft-model"}, "FILE", options.draft,
                   "draft model with the target's vocabulary, or \"ngram\": look the continuation up in the text so far (default "
                   "with -m: none)"),
              {{"-k", "--draft-max", "--spec-draft-n-max"},
               "N",
               "tokens to draft per target call, 0 to 63; 0 decodes without a draft; \"auto\": as many as save time, none where "
               "none do (default: auto)",
               set_draft_tokens},
              integer({"-c", "--ctx-size"}, options.n_ctx, 0, 1 << 24, "context in tokens (default: the model's own, at most 4096)"),
              integer({"-t", "--threads"}, options.n_threads, 0, 512, "threads (default: one per physical core)"),
              integer({"-b", "--batch-size"}, options.n_batch, max_draft_tokens + 1, 1 << 16, "prompt tokens per pass (default: 512)"),
              flag({"--no-mmap"}, options.use_mmap,
                   "read the weights into memory instead of mapping the files, in huge pages where the system has them: passes "
                   "as fast or faster, a slower start, memory that is not shared",
                   false),
              choice({"--kv-type"}, {"f16", "q8_0"}, options.kv_type, "keys and values in the caches: 16 or 8.5 bits each"),
              {{"--rpc"},
               "HOST:PORT",
               "run the target's layers on these machines, on which specdec rpc-server runs; several with commas between "
               "(docs/distributed.md)",
               set_rpc},
              {{"-ngl", "--gpu-layers", "--n-gpu-layers"},
               "N",
               "layers, the last ones, to put there, or on a GPU in builds with such a backend; -1: all (default: all with "
               "--rpc, else 0)",
               [&options](const std::string& text) { options.n_gpu_layers = static_cast<int>(parse_integer(text, -1, 100000)); }},
          }};
}

Group sampling_group(Request& request) {
  sampling::SamplingParams& params = request.sampling;
  const auto set_seed = [&request](const std::string& text) {
    request.seed.reset();
    if (text != "-1") request.seed = parse_unsigned(text);
  };
  const auto add_bias = [&params](const std::string& text) { params.logit_bias.push_back(parse_logit_bias(text)); };
  const auto set_verification = [&request](const std::string& text) { request.verification = verification_named(text); };
  const auto set_drafting = [&request](const std::string& text) { request.drafting = drafting_named(text); };
  return {
      "Sampling",
      {
          {{"-s", "--seed"}, "N", "seed: it repeats the text, but see --verification (default: random, as is -1)", set_seed},
          real({"--temp", "--temperature"}, params.temperature, {0.0}, "0 is greedy"),
          integer({"--top-k"}, params.top_k, 0, INT_MAX, "keep the N most likely tokens, 0: off (default: 40)"),
          real({"--top-p"}, params.top_p, {0.0, 1.0, true}, "keep the most likely tokens up to this probability, 1: off"),
          real({"--min-p"}, params.min_p, {0.0, 1.0}, "drop tokens below this times the most likely one's probability, 0: off"),
          real({"--repeat-penalty"}, params.repeat_penalty, {0.0, std::numeric_limits<double>::max(), true},
               "divide the logits of recent tokens by this, 1: off"),
          real({"--presence-penalty"}, params.presence_penalty, {}, "subtract this from the logits of recent tokens, 0: off"),
          real({"--frequency-penalty"}, params.frequency_penalty, {}, "the same for each time that they occur, 0: off"),
          integer({"--repeat-last-n"}, params.penalty_last_n, -1, INT_MAX, "tokens back that the penalties look, -1: all (default: 64)"),
          {{"-l", "--logit-bias"}, "ID+BIAS", "add to a token's logit, as in 15043+1 or 15043-1; 15043-inf bans it; repeatable", add_bias},
          {{"--verification"},
           "MODE",
           "how drafts are judged, always with the target's law. block: together, which accepts the most; token: one by one; "
           "invariant: a seed gives the same text for any draft and any -k, for 8 % fewer tokens per target call (12 % at "
           "worst); auto: invariant with -s and -k auto, else block (default: " +
               std::string(request.verification ? name(*request.verification) : "auto") + ")",
           set_verification},
          {{"--drafting"},
           "MODE",
           "sampled: drafts are drawn from the draft's distribution; argmax: its most likely tokens (default: sampled)",
           set_drafting},
      }};
}

Option predict_option(Request& request, int low, const std::string& help) {
  const auto set = [&request, low](const std::string& text) {
    try {
      request.max_tokens = text == "-1" ? INT_MAX : static_cast<int>(parse_integer(text, low, INT_MAX));
    } catch (const UsageError&) {
      const std::string range = std::to_string(low) + " to " + std::to_string(INT_MAX) + " or -1";
      throw UsageError("expected a whole number from " + range + ", got \"" + text + "\"");
    }
  };
  const std::string unlimited = ", -1: until the text ends or the context is full";
  const std::string shown = " (default: " + std::to_string(request.max_tokens) + ")";
  return {{"-n", "--predict", "--n-predict"}, "N", help + unlimited + shown, set};
}

void resolve_models(GeneratorOptions& options) {
  if (options.target.empty()) {
    const ModelPair pair = find_bundled_pair(model_folders());
    options.target = pair.target;
    if (options.draft.empty()) options.draft = pair.draft;
  }
  if (options.num_draft_tokens == 0) options.draft.clear();
  warn_of_large_draft(options);
  if (!options.use_mmap && !has_huge_pages()) note("note: this system has no huge pages to give; --no-mmap makes no pass faster here\n");
}

void fix_seed(Request& request) {
  if (!request.seed) request.seed = std::random_device()();
}

}  // namespace specdec::cli
