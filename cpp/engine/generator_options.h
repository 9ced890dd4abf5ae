// The options of a Generator, and their table.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/draft_source.h"
#include "engine/option.h"
#include "llama/load_progress.h"
#include "speculative/sequence.h"

namespace specdec {

constexpr int default_context = 4096;       // tokens, unless the target was trained with less
constexpr int default_draft_window = 1024;  // tokens; bench/long_text has the costs of others
constexpr int default_tile_cache_mib = 32768;

constexpr int all_experts = 100000;  // as n_cpu_moe: more layers than any model has

struct GeneratorOptions {
  std::string target;  // GGUF path
  DraftSource draft;
  std::string mmproj = "auto";  // the projector for pictures: a file, "auto" or "none" (engine/projector_search.h)
  // Tokens; none: the target's training context, at most default_context; 0: as much of that context as fits into
  // memory.
  std::optional<int> n_ctx;
  std::optional<int> draft_window;       // the last tokens of a text that a draft model reads; none: memory.h
  std::optional<int> n_threads;          // none: one per physical core
  int n_batch = 512;                     // tokens per pass while reading a prompt
  std::vector<std::string> rpc_servers;  // HOST:PORT of machines that run the target's layers (specdec rpc-server)
  // How many of the last layers run on these servers and on devices of this machine, or all_layers, or layers_that_fit;
  // none: all with rpc_servers, those that fit with devices, otherwise 0.
  std::optional<int> n_gpu_layers;
  std::vector<std::string> devices;                // names (llama/devices.h); empty: those found; "none": none
  std::optional<int> n_gpu_layers_draft;           // the same for a draft model or head; none: as for the target
  std::vector<std::string> devices_draft;          // empty: those of the target
  int n_cpu_moe = 0;                               // experts of the target's first layers stay on the CPU
  int n_cpu_moe_draft = 0;                         // the same for a draft's or head's own file
  std::string tensor_split;                        // "3,1": shares of the layers for each device; empty: by free memory
  std::vector<std::string> override_tensor;        // PATTERN=DEVICE, or =CPU (llama/offload.h), of the target
  std::vector<std::string> override_tensor_draft;  // of a draft's or head's own file
  bool exact = true;       // on devices: shapes of passes that depend on the text only (llama/pass_shape.h)
  bool use_mmap = true;    // weights stay in their files; false: read into memory, in huge pages (llama/model.h)
  bool repack = true;      // copies stock weights of mapped files into tiles (llama/weight_tiles.h)
  std::string tile_cache;  // FOLDER or FOLDER:MIB where these copies are kept (llama/tile_cache.h); empty: nowhere
  std::string memory;      // of the whole process, as "11G" (engine/streaming_plan.h); empty: what is available
  std::string draft_weights = "auto";    // repacked weights of a draft model (llama/weight_tiles.h): auto, 4-bit or
                                         // file
  std::string kv_type = "f16";           // of both models' caches: f16, q8_0
  std::string draft_corpus;              // a file that suffix decoding copies from, too (engine/draft_corpus.h)
  std::string json_tool_calls = "auto";  // "auto" and "always": if an answer has none in the template's form; "never"
  std::optional<std::string> chat_template;  // instead of the model's own: a name or a text (chat/chat_template.h)
  bool suffix = true;                        // with a draft model, also drafts copies of text
  bool auto_cache = true;                    // saves what num_draft_tokens = "auto" learnt (engine/auto_cache.h)
  int max_sequences = 1;                     // requests that run at once; each has a context of its own
  int max_queue_size = 1024;                 // requests that may wait for an Executor
  LoadProgressCallback progress;             // of loading
  // Downloads a model of the hub, "hf:OWNER/REPOSITORY:QUANT", and returns its path; throws Error or Cancelled. For the
  // draft "auto"; null: no downloads.
  std::function<std::string(const std::string&)> download;
  // Drafts of a tree where K is "auto"; 0: chains; auto_draft_tokens: as many as pay.
  int draft_tree = auto_draft_tokens;
  int num_draft_tokens = auto_draft_tokens;  // or K, 0 .. max_draft_tokens; a request may choose its own
};

constexpr int max_logit_rows = 512;  // of a pass: 300 MB for a vocabulary of 152,000

using GeneratorOption = option::Option<GeneratorOptions>;
const option::Table<GeneratorOptions>& generator_options();

// The most drafts of a tree; 0: no trees.
inline int max_tree_size(const GeneratorOptions& options) {
  return options.draft_tree == auto_draft_tokens ? max_draft_tokens : options.draft_tree;
}
// Rows of logits in a pass of a draft model.
int rows_of_draft(const GeneratorOptions& options);

}  // namespace specdec
