#include "cli/llama_flags.h"

#include <sstream>

namespace specdec::cli {
namespace {

constexpr const char* everywhere = "";

struct Flags {
  const char* names;  // separated by blanks
  const char* instead;
  const char* moot_in = nullptr;  // the command (or everywhere) in which a note is enough; null: always an error
  const char* same_as = "";
};

constexpr Flags llama_flags_table[] = {
    // Conversations
    {"-cnv --conversation -i --interactive -if --interactive-first", "`specdec chat` holds a conversation",
     "specdec chat"},
    {"-no-cnv --no-conversation", "`specdec generate` continues a prompt without a chat template", "specdec generate"},
    {"-st --single-turn", "`specdec chat` has this option"},
    {"-mli --multiline-input", "in `specdec chat` Alt-Enter adds a line, and pasted lines stay together",
     "specdec chat"},
    {"-sys --system-prompt -sysf --system-prompt-file", "`specdec chat` takes a system prompt"},
    {"--in-prefix --in-suffix --in-prefix-bos",
     "`specdec chat` puts messages into the model's chat template; --chat-template replaces it"},
    {"--jinja --chat-template --chat-template-file", "`specdec chat` uses chat templates"},
    {"--no-jinja --skip-chat-parsing --no-skip-chat-parsing",
     "`specdec chat` always runs the model's template as Jinja and shows all of the answer"},
    {"--reasoning-format -rea --reasoning --reasoning-effort --reasoning-budget-message --reasoning-preserve "
     "--no-reasoning-preserve",
     "`specdec serve` returns reasoning as reasoning_content, elsewhere it is part of the answer"},
    {"--reasoning-budget", "`specdec serve` has this option; elsewhere reasoning is part of the answer"},
    {"--chat-template-kwargs", "only `specdec serve` has it; --chat-template-file takes a template of your own"},
    {"--no-context-shift",
     "when the context is full, `specdec chat` leaves out the oldest turns, elsewhere the text ends", everywhere},
    {"--keep --context-shift -gan --grp-attn-n -gaw --grp-attn-w",
     "when the context is full, `specdec chat` leaves out the oldest turns, elsewhere the text ends; -c sets its size"},
    {"--prompt-cache", "`specdec generate` keeps a prompt on disk; `specdec chat` keeps the conversation in memory"},
    {"--prompt-cache-all --prompt-cache-ro", "--prompt-cache keeps the prompt, and writes only what it lacks"},
    {"--simple-io", "piped input is read without editing", everywhere},
    // Drafts
    {"--draft", "-md takes the draft model"},
    {"--draft-n", "-k sets the number of drafts, -md the draft model"},
    {"--draft-min --draft-n-min --spec-draft-n-min --draft-p-min --spec-draft-p-min --draft-p-split "
     "--spec-draft-p-split",
     "-k auto, the default, stops drafting where it does not pay"},
    {"--spec-type --spec-default --spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match "
     "--spec-ngram-simple-size-n --spec-ngram-simple-size-m --spec-ngram-simple-min-hits --spec-ngram-size-n "
     "--spec-ngram-size-m --spec-ngram-min-hits -lcs --lookup-cache-static -lcd --lookup-cache-dynamic",
     "-md takes a draft model, \"suffix\" or \"ngram\""},
    {"-cd --ctx-size-draft --spec-draft-ctx-size", "-c applies to both models"},
    // Models and memory
    {"-ctk --cache-type-k -ctv --cache-type-v", "--kv-type sets the type of keys and values in both models", nullptr,
     "--kv-type"},
    {"-ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft --spec-draft-type-v",
     "--kv-type sets the type of keys and values in both models"},
    {"-fa --flash-attn", "attention is always fused", everywhere},
    {"--mlock -lm --load-mode -lzm --lazy-mode", "weights are mapped; --no-mmap reads them into memory"},
    {"--mmap", "weights are mapped unless --no-mmap is given", everywhere},
    {"--repack", "weights are repacked unless --no-repack is given", everywhere},
    {"--warmup --no-warmup", "there is no warm-up pass", everywhere},
    {"-hf -hfr --hf-repo -hfd -hfrd --hf-repo-draft",
     "`specdec generate` and `specdec chat` download models from the Hugging Face hub"},
    {"-hff --hf-file", "-hf takes OWNER/REPO/FILE.gguf, too"},
    {"-hft --hf-token", "the environment variable HF_TOKEN holds the token"},
    {"--offline", "HF_HUB_OFFLINE=1 in the environment uses only models that were downloaded"},
    {"-mu --model-url -dr --docker-repo", "-hf downloads a model from the Hugging Face hub, -m takes a file"},
    {"-cl --cache-list", "`specdec models list` lists the models in the cache of the Hugging Face hub"},
    {"--lora --lora-scaled --control-vector --control-vector-scaled --control-vector-layer-range",
     "adapters are not supported; merge them into the model"},
    {"--override-kv --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx --yarn-ext-factor "
     "--yarn-attn-factor --yarn-beta-slow --yarn-beta-fast",
     "the model's metadata are used as they are"},
    {"-sm --split-mode -mg --main-gpu -ncffn --n-cpu-ffn -nkvo --no-kv-offload --no-op-offload --no-host",
     "-ngl moves whole layers with their caches, -dev says where, -ot moves tensors"},
    {"-kvo --kv-offload --op-offload", "caches are where their layers are", everywhere},
    {"-fit --fit -fitt --fit-target -fitc --fit-ctx", "-ngl auto offloads as many layers as fit"},
    {"-dev --device --list-devices -devd --device-draft --spec-draft-device -ngld --gpu-layers-draft "
     "--n-gpu-layers-draft --spec-draft-ngl -ts --tensor-split -ot --override-tensor -otd --override-tensor-draft "
     "--spec-draft-override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe -cmoed --cpu-moe-draft --spec-draft-cpu-moe "
     "-ncmoed --n-cpu-moe-draft --spec-draft-n-cpu-moe --spec-draft-ncmoe",
     "the commands that generate have this option"},
    {"--check-tensors", "files are checked when they are opened; `specdec info` shows what they hold"},
    {"--swa-full", "caches of sliding windows are always full", everywhere},
    {"-dt --defrag-thold", "caches need no defragmentation", everywhere},
    // Servers
    {"-cb --cont-batching", "requests share passes; -np sets how many", everywhere},
    {"-nocb --no-cont-batching", "requests share passes; -np 1 runs them one by one"},
    {"--cache-prompt", "a prompt reuses what any slot holds of its beginning", everywhere},
    {"--no-cache-prompt --cache-reuse -sps --slot-prompt-similarity -cram --cache-ram "
     "--cache-idle-slots --no-cache-idle-slots -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step",
     "a prompt reuses what any slot holds of its beginning"},
    {"-kvu --kv-unified -no-kvu --no-kv-unified --kv-unified-per-slot",
     "each of the -np requests has a context of -c tokens"},
    {"--ssl-key-file --ssl-cert-file", "there is no TLS; put a reverse proxy in front of `specdec serve`"},
    {"--cors-methods --cors-headers --cors-credentials --no-cors-credentials",
     "`specdec serve --cors` names origins; the rest is fixed"},
    {"--path --api-prefix --ui-config --webui-config --ui-config-file --webui-config-file --ui-mcp-proxy "
     "--webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy --tools --tools-runtime --mcp-servers-config "
     "--mcp-servers-json -ag --agent -no-ag --no-agent",
     "the page of `specdec serve` is fixed (--no-webui: none), and a reverse proxy can change paths"},
    {"--ui --webui --no-ui --no-webui --metrics --props --slots --api-key --api-key-file --host --port --alias -a "
     "--timeout -to --threads-http --cors-origins --slot-save-path --sse-ping-interval --models-dir --models-max "
     "--models-autoload --no-models-autoload --prefill-assistant --no-prefill-assistant",
     "`specdec serve` has this option"},
    {"--no-slots", "`specdec serve` always has /slots; --api-key keeps others out"},
    {"--embedding --embeddings", "`specdec serve` always has /v1/embeddings"},
    {"--rerank --reranking --pooling --embd-normalize --spm-infill --embd-gemma-default",
     "reranking is not supported; embeddings are pooled as the file says, and the text before the cursor comes first"},
    {"-mmu --mmproj-url --mmproj-auto --no-mmproj --no-mmproj-auto",
     "--mmproj takes a file, \"auto\" (the default) or \"none\"; -hf downloads a repository's projector"},
    {"--mmproj-offload --no-mmproj-offload -mmdev --mmproj-device --image-min-tokens --image-max-tokens "
     "--mtmd-batch-max-tokens --media-path",
     "the projector runs on the CPU, with the sizes of pictures that its file says"},
    {"--models-preset --tags", "a server serves one model (-m, -hf) or those of a folder (--models-dir)"},
    {"--sleep-idle-seconds --reuse-port --lora-init-without-apply --log-prompts-dir",
     "`specdec serve --help-all` lists what can be set"},
    // Threads and passes
    {"-tb --threads-batch -td --threads-draft -tbd --threads-batch-draft",
     "-t sets the threads of all passes of both models", everywhere},
    {"-C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb --cpu-mask-batch -Crb --cpu-range-batch "
     "--cpu-strict-batch --prio-batch --poll-batch --numa",
     "-t sets the number of threads; `taskset` and `numactl` place them"},
    {"-ub --ubatch-size", "-b sets the size of passes over prompts"},
    // Sampling
    {"--samplers --sampler-seq --sampling-seq --top-nsigma --top-n-sigma --typical --typical-p --adaptive-target "
     "--adaptive-decay --dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent -bs --backend-sampling",
     "the transforms are --temp, --top-k, --top-p, --min-p, the penalties, --dry-multiplier and --xtc-probability"},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file",
     "`specdec generate` has this option; requests to `specdec serve` have the fields grammar, json_schema and "
     "response_format"},
    // Input and output
    {"-bf --binary-file", "-f reads a prompt of UTF-8 text"},
    {"--no-escape", "-p is used as it is unless -e is given", everywhere},
    {"--display-prompt", "the prompt is shown unless --no-display-prompt is given"},
    {"-sp --special", "control tokens have no text; --json shows their ids"},
    {"--perf", "the statistics show the times", everywhere},
    {"-ptc --print-token-count --verbose-prompt", "the statistics show the numbers of tokens"},
    {"--no-perf", "--no-stats leaves the statistics out"},
    {"--log-file", "`specdec serve` has this option; other commands write no log"},
    {"--log-jsonl", "`specdec serve --log-format json` does this; other commands write no log"},
    {"-v --verbose --log-verbose --log-verbosity -lv --verbosity --no-log-jsonl --log-colors "
     "--log-prefix --no-log-prefix --log-timestamps --no-log-timestamps",
     "`specdec serve` logs a line for each request (--log-format), other commands log nothing; --json of "
     "`specdec generate` reports everything about an output"},
    {"--log-disable", "nothing is logged", everywhere},
    {"-e --escape --json --no-stats -np --parallel", "`specdec generate` has this option"},
    {"--completion-bash --usage", "--help lists the options"},
};

}  // namespace

LlamaFlag llama_flag(const std::string& name, const std::string& command) {
  for (const Flags& flags : llama_flags_table) {
    std::istringstream names(flags.names);
    for (std::string candidate; names >> candidate;) {
      if (candidate != name) continue;
      return {flags.instead, flags.moot_in != nullptr && (*flags.moot_in == 0 || flags.moot_in == command),
              flags.same_as};
    }
  }
  return {};
}

}  // namespace specdec::cli
