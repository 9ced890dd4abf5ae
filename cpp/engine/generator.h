// The public C++ interface: generates text with a target and a draft. Python and the command line are thin layers over this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/chat_template.h"
#include "constraints/constraint_compiler.h"
#include "engine/drafting_report.h"
#include "engine/executor.h"
#include "engine/generator_options.h"
#include "engine/pass_times.h"
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/text.h"
#include "llama/context.h"
#include "llama/model.h"
#include "speculative/auto/adaptive_draft_length.h"
#include "speculative/corpus_index.h"
#include "speculative/decoder.h"
#include "speculative/drafting_head.h"

namespace specdec {

class Generator {
 public:
  // Loads the models. Throws std::invalid_argument, ModelError, VocabularyMismatch or Cancelled. threads: may be shared by Generators that
  // do not run at the same time; null: new ones.
  explicit Generator(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads = nullptr);

  // Sentences about what could not be done as asked but does not change results, such as weights that were not repacked.
  const std::vector<std::string>& notes() const { return notes_; }

  // Such a sentence about a request's prompt; empty: none.
  std::string note_of(const Request& request) const;

  // One request at a time.

  // Starts a request: reads the prompt into both caches, except the longest prefix that is cached already. Ends all running
  // requests. Throws std::invalid_argument, ContextFull or Cancelled; can be called again after any of them.
  void start(const Request& request, const PromptProgress& progress = {});

  // The next piece; nullopt at the end. After an exception the request is over, and start() works again.
  std::optional<Piece> next();

  // Ends all requests; the caches keep the delivered tokens.
  void stop();

  // Of the running or last request of start(). All but stats(), drafting_state() and drafting() may be called on any thread.
  Stats stats() const;
  // What a token takes without drafts, estimated from all passes so far; 0: unknown.
  double plain_seconds_per_token() const { return draft_length_.plain_seconds(); }
  // Whether the running or last request of start() uses drafts, and if not why, from the costs measured so far.
  DraftingState drafting_state() const { return drafting_state(std::atomic_load(&text_).get()); }
  std::string drafting() const { return drafting_report(drafting_state()); }
  // The same of another request, on the thread that runs it; null: of one that is still to come.
  DraftingState drafting_state(const Text* text) const;
  std::int64_t text_id() const;  // -1: none yet
  std::uint64_t seed() const;
  Verification verification() const;  // the mode in use
  bool is_repeatable() const;         // with seed() and verification(); see Text

  // Several requests at once.

  // Queues a request; returns its id. Throws std::invalid_argument, ContextFull or Cancelled, which do not affect the others.
  std::int64_t submit(const Request& request);

  // The next event of any of them; nullopt when all are finished. After Cancelled they can continue; other errors end one request
  // and are its last event.
  std::optional<Event> next_event() { return scheduler_->next(); }

  // Ends a request without further events. Does nothing if it is finished.
  void cancel(std::int64_t id) { scheduler_->cancel(id); }

  // Where drafts come from; without a choice in the options, the target's own head if it has one.
  const DraftSource& draft() const { return options_.draft; }
  int max_sequences() const { return scheduler_->num_slots(); }

  // Throws ModelError once an RPC server is lost: all further requests will fail.
  void check_rpc_servers() const { target_model_->check_rpc_servers(); }

  // The log-probabilities of the tokens of the request's prompt under the target, and its top_logprobs. Ends all running requests.
  // Throws as start() does.
  Score score(const Request& request);

  // Times passes of 1 to max_tokens tokens, each `repeats` times, at the end of the running or last request, which must exist and
  // is ended. Throws as next() does.
  PassTimes time_passes(int max_tokens, int repeats);

  // Requests of several threads at once.

  // The only user of the Generator until it is closed.
  std::unique_ptr<Executor> make_executor();
  // The state of a request for its submit(). May be called on any thread, at any time. cancelled: as in set_cancel_check(), for the
  // tokenizing. Throws as submit() does.
  std::shared_ptr<Text> prepare(const Request& request, const std::function<bool()>& cancelled = {});

  // Templates of conversations: the model's own, unless another is set.
  bool has_chat_template() const { return chat_template_.has_value(); }
  void set_chat_template(ChatTemplate chat_template) { chat_template_ = std::move(chat_template); }
  // The conversation as a prompt. Throws ModelError, std::invalid_argument.
  MarkedText chat_prompt(const Conversation& conversation) const;
  // Prepares a request for the answer to a conversation, whose tools are those that may be called: its text names the control tokens that
  // mark tool calls and reasoning, and a call that is required becomes its grammar. Returns how to take the answer apart; null: all of it
  // is content, as far as is known (ChatTemplate::output_parser()), or because the request has a constraint of its own. Throws
  // std::invalid_argument that names tool_choice if a call is required but the template has none, or the request a constraint.
  std::shared_ptr<const ChatOutputParser> prepare_answer(const Conversation& conversation, ToolUse tool_use, Request& request) const;
  // The tokens of that prompt; those for start() and submit(). Throws as these do, too.
  std::vector<Token> chat_tokens(const Conversation& conversation) const { return chat_tokens(conversation, cancelled_); }
  std::vector<Token> chat_tokens(const Conversation& conversation, const std::function<bool()>& cancelled) const;

  // Prompts on disk (engine/prefix_file.h).

  // Writes what is cached of the running or last request of start(): its prompt, if called after start(), and what followed. Returns
  // the number of tokens. Throws Error.
  int save_prefix(const std::string& path) const;
  // Ends all requests and fills the caches from a file; a request that begins with its tokens does not read them again, and its output
  // is the same, bit for bit. Throws UnusableFile for a file that is damaged or of other models or options.
  int load_prefix(const std::string& path);

  // Prefixes of idle conversations, once their slot is needed (engine/prefix_cache.h). note: what could not be kept, on any thread. Before
  // the first request. Throws Error if there is no such folder and none can be made.
  struct KeptPrefixes {
    std::uint64_t memory_bytes = 0;  // 0: none in memory
    std::string folder;              // for later processes; empty: none
    std::uint64_t folder_bytes = 0;
  };
  void keep_prefixes(const KeptPrefixes& options, std::function<void(const std::string&)> note);

  // Called regularly while models run and long prompts are tokenized, on the calling thread; true makes start(), submit() or next()
  // throw Cancelled.
  void set_cancel_check(std::function<bool()> cancelled);

  // false: suffix decoding does not copy from requests that finish after this call (default: true).
  void set_remembers_outputs(bool remembers) { scheduler_->set_remembers_outputs(remembers); }

  // special: control tokens written in the text are recognised.
  std::vector<Token> tokenize(const std::string& text, bool special = true) const {
    return target_model_->vocabulary().tokenize(text, special);
  }
  // The text of the tokens, with invalid UTF-8 replaced. special: with the names of control tokens, which are else left out.
  std::vector<Token> continuation_tokens(const std::string& text) const {
    return target_model_->vocabulary().tokenize(text, false, Vocabulary::Part::middle);
  }
  std::string detokenize(const std::vector<Token>& tokens, bool special = false) const;
  Vocabulary vocabulary() const { return target_model_->vocabulary(); }
  int n_ctx() const { return target_->context_length(); }
  int trained_context() const { return target_model_->trained_context(); }
  int n_threads() const { return threads_->size(); }
  const std::shared_ptr<ThreadPool>& threads() const { return threads_; }

 private:
  void load_target(const std::vector<GgufFile>& parts, Model::Options model);
  void load_draft(const std::vector<GgufFile>& parts, HeadKind head_file);
  void load_head(const std::shared_ptr<const Model>& model, std::shared_ptr<const CorpusIndex> corpus);
  void draft_from(LanguageModel& draft, std::shared_ptr<const CorpusIndex> corpus);
  std::shared_ptr<const CorpusIndex> load_draft_corpus(bool is_suffix);
  void load_draft_model(const std::vector<GgufFile>& parts, bool is_head);
  void load_draft_context(std::shared_ptr<const CorpusIndex> corpus);
  void repack();
  Range token_ids() const { return whole_numbers(0, target_->vocabulary_size() - 1); }
  const ChatTemplate& chat_template() const;
  std::vector<Token> control_tokens(const std::vector<std::string>& names) const;
  std::unique_ptr<sampling::Constraint> constraint_of(const Request& request);
  const ConstraintCompiler& constraint_compiler(const std::vector<Token>& control_tokens);
  void check_bias(const std::vector<std::pair<Token, double>>& logit_bias) const;
  std::vector<Token> prompt_tokens(const Request& request, const std::function<bool()>& cancelled) const;
  void read_prompt_of(const std::shared_ptr<Text>& text, const PromptProgress& progress = {});
  std::string cache_key(const std::string& path) const;
  std::string draft_key() const;
  ModelStates states() const { return {*decoder_, *target_, draft_.get(), head_.get()}; }
  LanguageModel& scored_target() { return head_ ? head_->target() : *target_; }

  GeneratorOptions options_;
  std::vector<std::string> notes_;
  ChatTexts chat_texts_;                       // of the target
  std::optional<ChatTemplate> chat_template_;  // none: the model has none, and no other was given
  std::shared_ptr<Model> target_model_, draft_model_;
  std::shared_ptr<ThreadPool> threads_;
  std::function<bool()> cancelled_;
  std::unique_ptr<Context> target_, draft_;  // draft_: of a draft model or of the layers of the target's own head
  std::unique_ptr<DraftingHead> head_;       // null: the draft, if any, is another model
  std::unique_ptr<Proposer> proposer_;
  AdaptiveDraftLength draft_length_;  // learns from all requests
  std::unique_ptr<Decoder> decoder_;

  std::unique_ptr<PrefixCache> prefix_cache_;  // null: none are kept
  std::unique_ptr<Scheduler> scheduler_;
  std::shared_ptr<Text> text_;  // the running or last request of start()
  std::atomic<std::int64_t> num_texts_{0};
  std::mutex constraints_mutex_;
  std::map<std::vector<Token>, std::unique_ptr<ConstraintCompiler>> constraints_;  // by Request::control_tokens; made by the first request
};

}  // namespace specdec
