#include "engine/generator_options.h"

#include <algorithm>

#include "speculative/tree_drafter.h"

namespace specdec {
namespace {

using namespace option;

template <auto member>
GeneratorOption generator_row(Description description) {
  return member_row<GeneratorOptions, member>(std::move(description));
}

Value draft(const GeneratorOptions& options) { return to_text(options.draft); }
void set_draft(GeneratorOptions& options, const Value& value) {
  options.draft = draft_source(std::get<std::string>(value));
}

Value num_draft_tokens(const GeneratorOptions& options) { return draft_tokens_value(options.num_draft_tokens); }
Value draft_tree(const GeneratorOptions& options) { return draft_tokens_value(options.draft_tree); }
void set_draft_tree(GeneratorOptions& options, const Value& value) { options.draft_tree = draft_tokens_of(value); }
void set_num_draft_tokens(GeneratorOptions& options, const Value& value) {
  options.num_draft_tokens = draft_tokens_of(value);
}

template <auto member>
GeneratorOption layers_row(Description description) {
  return row<GeneratorOptions>(
      std::move(description), [](const GeneratorOptions& options) { return layers_value(options.*member); },
      [](GeneratorOptions& options, const Value& value) { options.*member = layers_of(value); });
}

}  // namespace

const Table<GeneratorOptions>& generator_options() {
  constexpr bool is_optional = true;
  constexpr bool changes_texts = true;
  static const Table<GeneratorOptions> table = {
      generator_row<&GeneratorOptions::target>(
          {"target",
           Path{},
           {"Models", {"-m", "--model"}, "FILE", "target model, GGUF file (default: the bundled pair)"}}),
      row<GeneratorOptions>(
          {"draft",
           Draft{},
           {"Models",
            {"-md", "--model-draft", "--draft", "--spec-draft-model"},
            "FILE",
            "draft model, a GGUF file with the target's vocabulary; or \"mtp\": multi-token prediction layers of the "
            "target's file; or \"self\": the target itself, once more in 3 or 2 bits; or \"suffix\": what followed the "
            "longest match of the last tokens in the prompt, the "
            "output or earlier outputs; or \"ngram\": what followed the latest occurrence of the last 1 to 3 tokens; "
            "or \"auto\": \"mtp\", else a small model of the target's family from the Hugging Face hub, else "
            "\"suffix\"; or \"none\" (default with -m: one on disk)"}},
          draft, set_draft),
      generator_row<&GeneratorOptions::mmproj>(
          {"mmproj",
           Path{},
           {"Models",
            {"-mm", "--mmproj"},
            "FILE",
            "projector with which the target reads pictures; or \"auto\": one beside the target's file, if there is "
            "one; or \"none\""}}),
      generator_row<&GeneratorOptions::draft_corpus>(
          {"draft_corpus",
           Path{},
           {"Models",
            {"--draft-corpus"},
            "FILE",
            "a text that outputs may repeat (source code, documents), a folder of such files, or token ids if it ends "
            "in .ids: drafts are copied from it, too; its index is kept next to it (default: none)"}}),
      generator_row<&GeneratorOptions::chat_template>({"chat_template", String{}, {}, is_optional}),
      generator_row<&GeneratorOptions::json_tool_calls>(
          {"json_tool_calls",
           Choice{{"auto", "always", "never"}},
           {"Models",
            {"--json-tool-calls"},
            "auto|always|never",
            "whether JSON in an answer is read as tool calls, if tools were given. auto and always: if the answer has "
            "no call in the chat template's form (some models write JSON whatever their template says); never"}}),
      generator_row<&GeneratorOptions::suffix>({"suffix",
                                                Flag{},
                                                {"Models",
                                                 {"--no-suffix"},
                                                 "",
                                                 "use drafts of the draft model only; otherwise repeated text is "
                                                 "copied, as with -md suffix, where that is faster"}}),
      row<GeneratorOptions>(
          {"num_draft_tokens",
           DraftTokens{},
           {"Models",
            {"-k", "--draft-max", "--spec-draft-n-max"},
            "N",
            "tokens to draft per target call, 0 to " + std::to_string(max_draft_tokens) +
                "; 0 disables drafting; \"auto\": the fastest number by measured pass times and acceptance, or none"}},
          num_draft_tokens, set_num_draft_tokens),
      row<GeneratorOptions>(
          {"draft_tree",
           DraftTokens{},
           {"Models",
            {"--draft-tree"},
            "N",
            "with -k auto, a draft model proposes a tree of N tokens, 0 to " + std::to_string(max_draft_tokens) +
                ", which branches where the draft is unsure; 0: a chain; \"auto\": branches where "
                "they are worth the time, by measured pass times and acceptance"}},
          draft_tree, set_draft_tree),
      generator_row<&GeneratorOptions::auto_cache>(
          {"auto_cache",
           Flag{},
           {"Models",
            {"--no-auto-cache"},
            "",
            "do not save the pass times and the acceptance that -k auto measures with these models for the next run"},
           !is_optional,
           !changes_texts}),
      generator_row<&GeneratorOptions::n_ctx>(
          {"n_ctx",
           Whole{whole_numbers(0, 1 << 24)},
           {"Models",
            {"-c", "--ctx-size"},
            "N",
            "context size in tokens; 0: the model's training context, or as much of it as fits into memory (default: "
            "the model's training context, at most " +
                std::to_string(default_context) + ")"},
           is_optional}),
      generator_row<&GeneratorOptions::draft_window>(
          {"draft_window",
           Whole{whole_numbers(1, 1 << 24)},
           {"Models",
            {"--draft-window"},
            "N",
            "a draft model reads at most the last N tokens of a text, so that a long prompt costs it little memory and "
            "time; a shorter window is read sooner, but its drafts are accepted less often (default: " +
                std::to_string(default_draft_window) + ")"},
           is_optional}),
      generator_row<&GeneratorOptions::n_threads>({"n_threads",
                                                   Whole{whole_numbers(1, 512)},
                                                   {"Models",
                                                    {"-t", "--threads"},
                                                    "N",
                                                    "threads (default: one per physical core, performance cores only)",
                                                    "0"},
                                                   is_optional,
                                                   !changes_texts}),
      generator_row<&GeneratorOptions::n_batch>(
          {"n_batch",
           Whole{whole_numbers(max_draft_tokens + 1, 1 << 16)},
           {"Models",
            {"-b", "--batch-size"},
            "N",
            "tokens per pass while reading a prompt, at least " + std::to_string(max_draft_tokens + 1)},
           !is_optional,
           !changes_texts}),
      generator_row<&GeneratorOptions::use_mmap>(
          {"mmap",
           Flag{},
           {"Models",
            {"--no-mmap"},
            "",
            "read the weights into memory instead of mapping the files, into huge pages if available: passes are as "
            "fast or faster, but the start is slower and the memory is not shared with other processes"},
           !is_optional,
           !changes_texts}),
      generator_row<&GeneratorOptions::repack>(
          {"repack",
           Flag{},
           {"Models",
            {"-nr", "--no-repack"},
            "",
            "leave quantized weights (Q4_K, Q8_0, ...) as the file has them instead of copying them into the order of "
            "the kernels: a faster start and memory shared with other processes, slower passes, the same logits of the "
            "target"}}),
      generator_row<&GeneratorOptions::tile_cache>(
          {"tile_cache",
           Path{},
           {"Models",
            {"--tile-cache"},
            "FOLDER[:MIB]",
            "keep the repacked weights, which are as large as the model's file, in this folder, so that the next start "
            "maps them instead of repacking (Linux); processes share them (default: they are not kept; default size: " +
                std::to_string(default_tile_cache_mib) + " MiB)"},
           !is_optional,
           !changes_texts}),
      generator_row<&GeneratorOptions::memory>(
          {"memory",
           String{},
           {"Models",
            {"--memory"},
            "SIZE",
            "memory to use, such as 11G or 800M: weights of the target beyond it are read from the disk in every pass "
            "(docs/memory.md), from repacked ones in --tile-cache or specdec's own cache folder (default: most of what "
            "is available)"},
           !is_optional,
           !changes_texts}),
      generator_row<&GeneratorOptions::draft_weights>(
          {"draft_weights",
           Choice{{"auto", "4-bit", "3-bit", "2-bit", "file"}},
           {"Models",
            {"--draft-weights"},
            "auto|4-bit|3-bit|2-bit|file",
            "weights of the draft model, if they are repacked: rounded to 4.5 bits where they have more (F16 and MXFP6 "
            "too), for faster drafts that are accepted almost as often, or as the file has them; \"auto\": 4-bit, but "
            "in models of less than 200M weights floats in 8.5 bits and others as they are. With a large vocabulary "
            "(also a drafting head's), all but \"file\" multiply only the rows of likely tokens; 3-bit and 2-bit: for "
            "-md self"}}),
      generator_row<&GeneratorOptions::kv_type>(
          {"kv_type",
           Choice{{"f16", "q8_0"}},
           {"Models", {"--kv-type"}, "f16|q8_0", "type of the KV caches of both models: 16 or 8.5 bits per value"}}),
      generator_row<&GeneratorOptions::rpc_servers>({"rpc",
                                                     Addresses{},
                                                     {"Models",
                                                      {"--rpc"},
                                                      "HOST:PORT",
                                                      "run the target's layers on machines that run `specdec "
                                                      "rpc-server`; a comma-separated list (docs/distributed.md)"}}),
      layers_row<&GeneratorOptions::n_gpu_layers>(
          {"n_gpu_layers",
           Layers{},
           {"Models",
            {"-ngl", "--gpu-layers", "--n-gpu-layers"},
            "N|all|auto",
            "number of layers to offload, counted from the last (the output counts as one): to a GPU "
            "(docs/devices.md), or to the --rpc servers; auto: as many as fit (default: all with --rpc, auto with "
            "--device or if a GPU multiplies clearly faster than the CPU, else 0)"},
           is_optional}),
      generator_row<&GeneratorOptions::devices>(
          {"devices",
           Addresses{},
           {"Models",
            {"-dev", "--device"},
            "NAME,...",
            "devices for these layers, as --list-devices names them, or none (default: the GPUs with memory of their "
            "own, else the first one)"}}),
      layers_row<&GeneratorOptions::n_gpu_layers_draft>(
          {"n_gpu_layers_draft",
           Layers{},
           {"Models",
            {"-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl"},
            "N|all|auto",
            "the same for the draft model (default: as -ngl, or none if its passes are faster on the CPU; 0 with "
            "--rpc)"},
           is_optional}),
      generator_row<&GeneratorOptions::devices_draft>({"devices_draft",
                                                       Addresses{},
                                                       {"Models",
                                                        {"-devd", "--device-draft", "--spec-draft-device"},
                                                        "NAME,...",
                                                        "the same for the draft model; none: it runs on the CPU "
                                                        "(default: as --device)"}}),
      generator_row<&GeneratorOptions::n_cpu_moe>(
          {"n_cpu_moe",
           Whole{whole_numbers(0, all_experts)},
           {"Models",
            {"-ncmoe", "--n-cpu-moe"},
            "N",
            "keep the experts of the target's first N layers on the CPU, even if the layers are offloaded"}}),
      generator_row<&GeneratorOptions::n_cpu_moe_draft>(
          {"n_cpu_moe_draft",
           Whole{whole_numbers(0, all_experts)},
           {"Models",
            {"-ncmoed", "--n-cpu-moe-draft", "--spec-draft-n-cpu-moe", "--spec-draft-ncmoe"},
            "N",
            "keep the experts of the draft model's first N layers on the CPU"}}),
      generator_row<&GeneratorOptions::tensor_split>(
          {"tensor_split",
           String{},
           {"Models",
            {"-ts", "--tensor-split"},
            "N,N,...",
            "shares of the offloaded layers for each device, such as 3,1 (default: by free memory)"}}),
      generator_row<&GeneratorOptions::override_tensor>(
          {"override_tensor",
           Addresses{},
           {"Models",
            {"-ot", "--override-tensor"},
            "PATTERN=DEVICE,...",
            "place the target's tensors whose names match a regular expression on this device, or on the CPU"}}),
      generator_row<&GeneratorOptions::override_tensor_draft>(
          {"override_tensor_draft",
           Addresses{},
           {"Models",
            {"-otd", "--override-tensor-draft", "--spec-draft-override-tensor"},
            "PATTERN=DEVICE,...",
            "place the draft model's tensors in the same way"}}),
      generator_row<&GeneratorOptions::exact>(
          {"exact",
           Flag{},
           {"Models",
            {"--no-exact"},
            "",
            "on a GPU, use the fastest kernels even if drafts and other requests can then change the output "
            "(docs/devices.md)"}}),
      generator_row<&GeneratorOptions::max_sequences>(
          {"max_sequences",
           Whole{whole_numbers(1, 256)},
           {"Many prompts",
            {"-np", "--parallel"},
            "N",
            "requests that run at once, 1 to 256, each with a context of -c tokens (default: 8 with --prompts)"},
           !is_optional,
           !changes_texts}),
      generator_row<&GeneratorOptions::max_queue_size>(
          {"max_queue_size", Whole{whole_numbers(0, 1 << 20)}, {}, !is_optional, !changes_texts}),
  };
  return table;
}

int rows_of_draft(const GeneratorOptions& options) {
  const int of_trees = options.max_sequences * std::min(max_tree_size(options), widest_level);
  return std::max(options.max_sequences, std::min(of_trees, max_draft_tokens + 1));
}

}  // namespace specdec
