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
#include "engine/picture_reader.h"
#include "engine/request.h"
#include "engine/request_constraints.h"
#include "engine/request_handle.h"
#include "engine/request_tokens.h"
#include "engine/saved_prefixes.h"
#include "engine/scheduler.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/decoder.h"

namespace specdec {

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

  // The embedding of a text, with norm 1, pooled as the target's file says (embedding_context.h). It is computed in a
  // context of its own, so requests keep their caches. Throws std::invalid_argument, ContextFull, ModelError.
  std::vector<float> embed(const std::vector<Token>& tokens, const CancelCheck& cancelled = {});
  // The outputs of the target's layers for a text (hidden_row_reader.h), also in a context of its own. Throws
  // std::invalid_argument, ContextFull, ModelError.
  LayerRows hidden_rows(const std::vector<Token>& tokens, const std::vector<int>& layers, int num_top,
                        const CancelCheck& cancelled = {});

  SavedPrefixes& prefixes() { return prefixes_; }
  PictureReader& pictures() const { return pictures_; }
  Chat& chat() { return chat_; }
  const Chat& chat() const { return chat_; }
  // What is loaded, and how it was planned.
  const LoadedModels& models() const { return models_; }
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
  bool is_in_its_process() const { return executor_->is_in_its_process(); }

 private:
  void check_text(const std::vector<Token>& tokens) const;
  std::shared_ptr<ScheduledRequest> schedule(const Request& request, const CancelCheck& cancelled);
  Text prompt_of(const Request& request, const CancelCheck& cancelled) const;
  DraftingState drafting_state(const ScheduledRequest* request) const;

  const GeneratorOptions options_;
  LoadedModels models_;
  mutable PictureReader pictures_;
  Chat chat_;
  RequestConstraints constraints_;
  RequestTokens tokens_;
  AdaptiveDraftLength draft_length_;  // learns from all requests
  std::optional<AutoCache> auto_cache_;
  Decoder decoder_;
  Embedder embedder_;
  HiddenRowReader hidden_row_reader_;
  Scheduler scheduler_;
  SavedPrefixes prefixes_;
  std::atomic<std::int64_t> num_requests_{0};
  std::unique_ptr<Executor> executor_;  // last: its thread uses the other members
};

}  // namespace specdec
