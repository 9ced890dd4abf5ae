// The product: a target and a draft turned into a stream of text pieces. Python and the command line are thin over this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/pass_times.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/text.h"
#include "llama/chat_template.h"
#include "llama/context.h"
#include "llama/model.h"
#include "speculative/adaptive_draft_length.h"
#include "speculative/decoder.h"

namespace specdec {

constexpr int default_context = 4096;  // tokens, unless the target was trained with less

struct GeneratorOptions {
  std::string target;                    // GGUF path
  std::string draft;                     // GGUF path, "ngram" (prompt lookup), or empty: no draft
  int n_ctx = 0;                         // tokens; 0: what the target was trained with, at most default_context
  int n_threads = 0;                     // 0: one per physical core
  int n_batch = 512;                     // tokens per pass while reading a prompt
  std::vector<std::string> rpc_servers;  // HOST:PORT of machines that run the target's layers (specdec rpc-server)
  // There, or on a GPU where llama.cpp was built with one; -1: all; none: all with rpc_servers, else 0.
  std::optional<int> n_gpu_layers;
  bool use_mmap = true;                      // weights stay in their files; false: read into memory, in huge pages (llama/model.h)
  std::string kv_type = "f16";               // of both models' caches: f16, q8_0
  int max_sequences = 1;                     // texts that run at once; each has a context of its own
  int num_draft_tokens = auto_draft_tokens;  // or K, 0 .. max_draft_tokens; a request may choose its own
};

class Generator {
 public:
  // Loads the models. Throws std::invalid_argument, ModelError or VocabularyMismatch. Generators that take turns can
  // share their threads; null: new ones.
  explicit Generator(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads = nullptr);

  // One text at a time.

  // Begins a new text, reading the prompt into both caches but for the longest prefix they hold already. Ends all texts
  // that were running. Throws std::invalid_argument, ContextFull or Cancelled and can be called again after any of them.
  void start(const Request& request);

  // The next piece, or none at the end of the text. After an exception the text is over and start() works again.
  std::optional<Piece> next();

  // Ends all texts here; the caches keep what was delivered.
  void stop();

  // Of the running or last text of start(). All but stats() may be asked on any thread.
  Stats stats() const;
  std::int64_t text_id() const;  // -1: none yet
  std::uint64_t seed() const;
  Verification verification() const;  // the mode that runs

  // Many texts at once.

  // Queues a text beside those that run; its id. Throws std::invalid_argument or ContextFull; the others are untouched.
  std::int64_t submit(const Request& request);

  // What happens next to any of them; none when all are over. After Cancelled they can go on; other errors end one text and are
  // its last event.
  std::optional<Event> next_event() { return scheduler_->next(); }

  // Ends a text here; there will be no further event of it. One that is over is left alone.
  void cancel(std::int64_t id) { scheduler_->cancel(id); }

  int max_sequences() const { return scheduler_->num_slots(); }

  // Throws ModelError once an RPC server is lost: every further text will fail.
  void check_rpc_servers() const { target_model_->check_rpc_servers(); }

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
  void check_bias(const std::vector<std::pair<Token, double>>& logit_bias) const;
  std::vector<Token> prompt_tokens(const Request& request) const;
  std::shared_ptr<Text> make_text(const Request& request);

  GeneratorOptions options_;
  std::shared_ptr<const Model> target_model_, draft_model_;
  std::shared_ptr<ThreadPool> threads_;
  std::unique_ptr<Context> target_, draft_;
  std::unique_ptr<Proposer> proposer_;
  AdaptiveDraftLength draft_length_;  // learns over all texts
  std::unique_ptr<Decoder> decoder_;

  std::unique_ptr<Scheduler> scheduler_;
  std::shared_ptr<Text> text_;  // the running or last text of start()
  std::int64_t num_texts_ = 0;
};

}  // namespace specdec
