// The public C++ interface: generates text with a target and a draft. Python, the command line and the server are thin
// layers over this.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/auto_cache.h"
#include "engine/chat.h"
#include "engine/drafting_report.h"
#include "engine/embedder.h"
#include "engine/executor.h"
#include "engine/generator_options.h"
#include "engine/hidden_row_reader.h"
#include "engine/loaded_models.h"
#include "engine/pass_times.h"
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "engine/request_constraints.h"
#include "engine/request_handle.h"
#include "engine/request_tokens.h"
#include "engine/scheduler.h"
#include "engine/slot_states.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/decoder.h"

namespace specdec {

struct SlotBusy : Error {
  using Error::Error;
};

class Generator {
 public:
  // Loads the models. Throws std::invalid_argument, ModelError, VocabularyMismatch or Cancelled. threads: Generators
  // that do not run at the same time may share them; null: new ones.
  explicit Generator(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads = nullptr);
  // Ends all requests. In a forked process, which does not have the models' thread, what that thread used is not freed.
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Submits a request, on any thread. Dropping the handle cancels it. cancelled: asked while a long prompt is
  // tokenized. Throws std::invalid_argument, ContextFull, Cancelled; QueueFull if max_queue_size requests wait already.
  std::shared_ptr<RequestHandle> submit(const Request& request, const CancelCheck& cancelled = {});
  std::size_t num_unfinished() const { return executor_->num_unfinished(); }  // requests that run or wait
  void cancel_all() noexcept { executor_->cancel_all(); }  // ends them with Cancelled and waits until they have ended
  // Ends all requests for good: later ones throw Cancelled.
  void close() noexcept { executor_->close(); }

  // false: the target is an encoder, which makes embeddings only; requests throw std::invalid_argument.
  bool makes_text() const { return !models_.target_model().is_encoder(); }

  // A hint to the user about the prompt; empty: none. Does not change the output.
  std::string note_of(const Request& request) const;

  // Commands. They run between two passes; the caller, on any thread, waits for them. They throw Cancelled once the
  // Generator is closed.

  // Whether requests like this one use drafts, and if not, why, from the costs measured so far. null: requests with the
  // Generator's own number of drafts.
  std::string drafting(const RequestHandle* request = nullptr);
  double plain_seconds_per_token();  // what a token takes without drafts, estimated from all passes so far; 0: unknown

  // Times passes of 1 to max_tokens tokens, each `repeats` times, after the tokens of a request that has ended and
  // whose slot was not used since. cancelled: asked during passes. Throws ModelError, Cancelled; Error while requests
  // run.
  PassTimes time_passes(const RequestHandle& after, int max_tokens, int repeats, const CancelCheck& cancelled = {});

  // Writes what is cached of a request's prompt and of its output so far. Returns the number of tokens. Throws Error.
  int save_prefix(const RequestHandle& request, const std::string& path);
  // Fills the caches of a free slot (of `slot`, if given) from a file. A request that begins with the file's tokens
  // does not read them again; its output has the same bits. Returns the number of tokens. Throws UnusableFile for a
  // file that is damaged or of other models or options, SlotBusy while no slot is free.
  int load_prefix(const std::string& path, std::optional<int> slot = std::nullopt);
  // Save the caches of a slot (Request::slot) as save_prefix() does, or empty them. Return the number of tokens. Throw
  // Error; SlotBusy while a request runs there.
  int save_slot(int slot, const std::string& path);
  int erase_slot(int slot);
  // Keeps prefixes of idle conversations when their slot is needed (engine/prefix_cache.h). note: called, on any
  // thread, with what could not be kept. Throws Error if the folder does not exist and cannot be made.
  struct KeptPrefixes {
    std::uint64_t memory_bytes = 0;  // 0: none in memory
    std::string folder;              // for later processes; empty: none
    std::uint64_t folder_bytes = 0;
  };
  void keep_prefixes(const KeptPrefixes& options, std::function<void(const std::string&)> note);

  // The embedding of a text, with norm 1, pooled as the target's file says (embedding_context.h). It is computed in a
  // context of its own, so requests keep their caches. Throws std::invalid_argument, ContextFull, ModelError.
  std::vector<float> embed(const std::vector<Token>& tokens, const CancelCheck& cancelled = {});
  // The outputs of the target's layers for a text (hidden_row_reader.h), also in a context of its own. Throws
  // std::invalid_argument, ContextFull, ModelError.
  LayerRows hidden_rows(const std::vector<Token>& tokens, const std::vector<int>& layers, int num_top,
                        const CancelCheck& cancelled = {});
  int num_layers() const;  // of the target, without drafting heads
  Pooling pooling() const { return pooling_of(models_.target_model()); }

  Chat& chat() { return chat_; }
  const Chat& chat() const { return chat_; }
  // Sentences about what could not be done as asked but does not change results: for example, weights that were not
  // repacked.
  const std::vector<std::string>& notes() const { return models_.notes(); }
  // A sentence about which layers run on which devices; empty if none were asked for.
  std::string placement() const { return models_.placement(); }
  // What draft "auto" chose; empty: nothing to say.
  const std::string& draft_choice() const { return models_.draft_choice(); }
  const DraftSource& draft() const { return models_.draft_source(); }     // never AutomaticDraft
  void check_devices() const { models_.target_model().check_devices(); }  // throws ModelError once one is lost
  // false: suffix decoding does not copy from outputs of requests that finish after this call (default: true).
  void set_remembers_outputs(bool remembers);

  // special: control tokens written in the text are recognised.
  std::vector<Token> tokenize(const std::string& text, bool special = true) const {
    return vocabulary().tokenize(text, special);
  }
  std::vector<Token> continuation_tokens(const std::string& text) const {
    return vocabulary().tokenize(text, false, Vocabulary::Part::middle);
  }
  // The text of the tokens, with invalid UTF-8 replaced. special: control tokens appear by name; otherwise they are
  // omitted.
  std::string detokenize(const std::vector<Token>& tokens, bool special = false) const;
  // The tokens that appear by name in the text of a request's output.
  std::vector<Token> control_tokens(const Request& request) const { return constraints_.control_tokens(request); }
  Vocabulary vocabulary() const { return models_.vocabulary(); }

  int max_sequences() const { return scheduler_.num_slots(); }
  int n_ctx() const { return models_.n_ctx(); }
  int trained_context() const { return models_.target_model().trained_context(); }
  int draft_window() const { return models_.draft_window(); }  // tokens; 0: there is no draft model
  int n_threads() const { return models_.threads()->size(); }
  const std::shared_ptr<ThreadPool>& threads() const { return models_.threads(); }
  bool is_in_its_process() const { return executor_->is_in_its_process(); }

 private:
  void check_text(const std::vector<Token>& tokens) const;
  std::shared_ptr<ScheduledRequest> schedule(const Request& request, const CancelCheck& cancelled);
  std::vector<Token> prompt_tokens(const Request& request, const CancelCheck& cancelled) const;
  DraftingState drafting_state(const ScheduledRequest* request) const;
  Range token_ids() const;
  int write_prefix(PrefixFile prefix, const std::string& path) const;
  const ScheduledRequest* idle_in(int slot) const;
  std::string cache_key(const std::string& path, const std::string& place) const;
  std::string target_key() const;
  std::string draft_key() const;
  std::string auto_key() const;

  const GeneratorOptions options_;
  LoadedModels models_;
  Chat chat_;
  RequestConstraints constraints_;
  RequestTokens tokens_;
  AdaptiveDraftLength draft_length_;  // learns from all requests
  std::optional<AutoCache> auto_cache_;
  Decoder decoder_;
  ModelStates states_;
  std::unique_ptr<PrefixCache> prefix_cache_;  // null: none are kept
  Embedder embedder_;
  HiddenRowReader hidden_row_reader_;
  Scheduler scheduler_;
  std::atomic<std::int64_t> num_requests_{0};
  std::unique_ptr<Executor> executor_;  // last: its thread uses the other members
};

}  // namespace specdec
