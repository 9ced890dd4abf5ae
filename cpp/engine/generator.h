// The product: a target and a draft turned into a stream of text pieces. Python and the command line are thin over this.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/pass_times.h"
#include "engine/text_stream.h"
#include "llama/chat_template.h"
#include "llama/context.h"
#include "llama/model.h"
#include "sampling/transforms.h"
#include "speculative/adaptive_draft_length.h"
#include "speculative/decoder.h"

namespace specdec {

constexpr int default_context = 4096;  // tokens, unless the target was trained with less

struct GeneratorOptions {
  std::string target;         // GGUF path
  std::string draft;          // GGUF path, "ngram" (prompt lookup), or empty: no draft
  int n_ctx = 0;              // tokens; 0: what the target was trained with, at most default_context
  int n_threads = 0;          // 0: one per physical core
  int n_batch = 512;          // tokens per pass while reading a prompt
  std::vector<std::string> rpc_servers;  // HOST:PORT of machines that run the target's layers (specdec rpc-server)
  // There, or on a GPU where llama.cpp was built with one; -1: all; none: all with rpc_servers, else 0.
  std::optional<int> n_gpu_layers;
  std::string kv_type = "f16";  // of both models' caches: f16, q8_0
  int num_draft_tokens = auto_draft_tokens;  // or K, 0 .. max_draft_tokens; a request may choose its own
};

struct Request {
  std::string prompt;                      // UTF-8; special tokens written out are recognised
  std::vector<Token> prompt_tokens;        // instead of the text, if not empty
  sampling::SamplingParams sampling;
  std::vector<std::string> stop;           // end the text before the first of these
  std::optional<std::uint64_t> seed;       // none: a random one
  std::optional<int> num_draft_tokens;     // none: the generator's
  int max_tokens = 224;                    // 0 produces nothing
  Verification verification = Verification::block;
  Drafting drafting = Drafting::sampled;

  void validate() const;  // throws std::invalid_argument
};

// From the names of the enumerators. Throw std::invalid_argument.
Verification verification_named(const std::string& name);
Drafting drafting_named(const std::string& name);

enum class FinishReason { stop, length, context };  // end of generation or a stop string; max_tokens; no room left
const char* name(FinishReason reason);

// One token of the output. `text` is what became certain with it: it may be empty, or hold text of earlier tokens.
struct Piece {
  Token token = 0;
  std::string text;
  bool from_draft = false;
  double logprob = 0.0;                      // natural log, target's raw probability
  std::optional<FinishReason> finish_reason; // on the last piece
};

class Generator {
 public:
  // Loads the models. Throws std::invalid_argument, ModelError or VocabularyMismatch. Generators that take turns can
  // share their threads; null: new ones.
  explicit Generator(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads = nullptr);

  // Begins a new text, reading the prompt into both caches but for the longest prefix they hold already. Ends the text
  // that was running. Throws std::invalid_argument, ContextFull or Cancelled and can be called again after any of them.
  void start(const Request& request);

  // The next piece, or none at the end of the text. After an exception the text is over and start() works again.
  std::optional<Piece> next();

  // Ends the running text here; the caches keep what was delivered.
  void stop();

  // Counters of the running or last text.
  const Stats& stats() const { return decoder_->stats(); }
  std::uint64_t seed() const { return seed_; }

  // Passes of 1 to max_tokens tokens, each `repeats` times, at the end of the running or last text, of which there must be
  // one; ends it. Throws as next() does.
  PassTimes time_passes(int max_tokens, int repeats);

  bool has_chat_template() const { return specdec::has_chat_template(*target_model_); }
  // A prompt for the target, as apply_chat_template() makes it.
  std::string chat_prompt(const std::vector<ChatMessage>& messages) const { return apply_chat_template(*target_model_, messages); }

  // Asked now and then while models run, on the calling thread; true ends start() or next() with Cancelled.
  void set_cancel_check(std::function<bool()> cancelled);

  std::vector<Token> tokenize(const std::string& text) const { return target_model_->vocabulary().tokenize(text); }
  // Whole bytes of the tokens put together, invalid UTF-8 replaced.
  std::string detokenize(const std::vector<Token>& tokens) const;
  int n_ctx() const { return target_->context_length(); }
  int n_threads() const { return threads_->size(); }
  const std::shared_ptr<ThreadPool>& threads() const { return threads_; }

 private:
  void load_draft();
  std::vector<Token> prompt_tokens(const Request& request) const;
  int reuse_prefix(const std::vector<Token>& tokens);
  Piece make_piece(const Emission& emission, bool last);

  GeneratorOptions options_;
  std::shared_ptr<const Model> target_model_, draft_model_;
  std::shared_ptr<ThreadPool> threads_;
  std::unique_ptr<Context> target_, draft_;
  std::unique_ptr<Proposer> proposer_;
  AdaptiveDraftLength draft_length_;  // learns over all texts
  std::unique_ptr<Decoder> decoder_;

  std::unique_ptr<Sequence> sequence_;  // the running or last text
  std::unique_ptr<TextStream> text_;
  std::deque<Emission> pending_;        // made, not delivered
  int num_delivered_ = 0;               // tokens delivered, the prompt's included
  bool running_ = false;
  std::uint64_t seed_ = 0;
};

}  // namespace specdec
