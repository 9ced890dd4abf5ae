#include "engine/generator.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/isa.h"
#include "base/utf8.h"
#include "engine/draft_corpus.h"
#include "engine/prefix_file.h"
#include "engine/prompt.h"
#include "gguf/fingerprint.h"
#include "llama/backend.h"
#include "llama/head_context.h"
#include "model_file/own_head.h"
#include "platform/cores.h"
#include "platform/memory.h"
#include "speculative/combined_proposer.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_proposer.h"

namespace specdec {
namespace {

// Of recurrent layers, where the number of drafts is not fixed: longer drafts (copies) are rolled back from a checkpoint.
constexpr int default_snapshots = 8;
constexpr int max_rows = 512;  // rows of logits per pass: 300 MB for a vocabulary of 152,000

// A drafting head in a file of its own, if the draft is one. Throws ModelError if it is not for this target.
HeadFile head_of(const std::vector<GgufFile>& draft, const std::vector<GgufFile>& target, bool is_remote) {
  if (draft.empty()) return {};
  HeadFile head = head_file(draft);
  if (head.kind == HeadKind::none) return head;
  check_head_for(draft, target);
  if (is_remote) {
    throw WrongValue("draft", "\"" + draft.front().path + "\"",
                     "another kind of draft with RPC servers: each head pass would wait for the network");
  }
  return head;
}

ChatTexts chat_texts(const Model& model) {
  const Vocabulary vocabulary = model.vocabulary();
  return {model.path(), model.chat_template(), model.chat_template(true), vocabulary.name(vocabulary.bos()),
          vocabulary.name(vocabulary.eos())};
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace

Generator::Generator(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads)
    : options_(options), threads_(std::move(threads)) {
  option::check(generator_options(), options);
  const KvType kv_type = parse_kv_type(options.kv_type);
  if (options.chat_template) chat_template_ = ChatTemplate(*options.chat_template, "chat_template");

  Model::Options model;
  model.use_mmap = options.use_mmap;
  model.num_gpu_layers = options.n_gpu_layers.value_or(options.rpc_servers.empty() ? 0 : -1);
  model.rpc_servers = options.rpc_servers;
  model.progress = options.progress;
  const std::string* draft_file = draft_path(options.draft);
  const std::vector<GgufFile> target = GgufFile::read_parts(options.target);
  const std::vector<GgufFile> draft = draft_file != nullptr ? GgufFile::read_parts(*draft_file) : std::vector<GgufFile>();
  const HeadFile head = head_of(draft, target, !options.rpc_servers.empty());
  load_target(target, model);
  chat_texts_ = chat_texts(*target_model_);
  if (!chat_template_ && !chat_texts_.tmpl.empty()) chat_template_ = ChatTemplate::of(chat_texts_);
  if (options.n_gpu_layers.value_or(0) != 0 && options.rpc_servers.empty() && !has_gpu()) {
    notes_.push_back("n_gpu_layers (-ngl) has no effect: this llama.cpp was built without a GPU backend, or found no GPU");
  }
  if (options.n_ctx && *options.n_ctx > target_model_->trained_context()) {
    notes_.push_back("a context of " + std::to_string(*options.n_ctx) + " tokens is longer than what " + printable(options.target) +
                     " was trained for, " + std::to_string(target_model_->trained_context()) + ": text beyond that is likely to be poor");
  }
  if (!threads_) threads_ = std::make_shared<ThreadPool>(options.n_threads ? *options.n_threads : default_threads());
  Context::Options context;
  context.context_length = options.n_ctx ? *options.n_ctx : std::min(default_context, target_model_->trained_context());
  context.batch_size = options.n_batch;
  context.num_slots = options.max_sequences;
  context.max_rows = std::max(max_draft_tokens + 1, std::min({options.max_sequences * (max_draft_tokens + 1), options.n_batch, max_rows}));
  context.kv_type = kv_type;
  if (has_draft(options_.draft)) context.num_snapshots = options.num_draft_tokens > 0 ? options.num_draft_tokens : default_snapshots;
  if (target_model_->has_head() || head.kind != HeadKind::none) {
    const HeadTarget::Rows rows{head.target_layers, head.kind == HeadKind::assistant};
    target_ = std::make_unique<HeadTarget>(target_model_, threads_, context, rows);
  } else {
    target_ = std::make_unique<Context>(target_model_, threads_, context);
  }
  if (target_->lacks_snapshots()) {
    notes_.push_back(printable(options.target) + ": there is no memory for snapshots of the recurrent state (" +
                     std::to_string(context.num_snapshots) + " for each sequence), so rejected drafts are rolled back by a copy of it, " +
                     "which takes longer. Ask for fewer sequences, a shorter context (n_ctx, -c), or fewer drafts (num_draft_tokens, -k)");
  }
  load_draft(draft, head.kind);
  if (options.repack) repack();
  decoder_ = std::make_unique<Decoder>(scored_target(), proposer_.get(), &draft_length_);
  scheduler_ = std::make_unique<Scheduler>(*decoder_, target_model_->vocabulary(), options.max_sequences);
  options_.progress = {};
}

// With its own head, if that is asked for, or if there is no other draft.
void Generator::load_target(const std::vector<GgufFile>& parts, Model::Options model) {
  const auto load = [&](bool with_head) {
    model.with_head = with_head;
    target_model_ = std::make_shared<Model>(parts, model);
    if (with_head) options_.draft = OwnHead();
  };
  const auto note = [&](const std::string& problem) { notes_.push_back("drafts do not come from the model's own head: " + problem); };
  const bool is_asked = std::holds_alternative<OwnHead>(options_.draft), is_remote = !options_.rpc_servers.empty();
  if (is_asked && is_remote) {
    throw WrongValue("draft", "\"mtp\"", "another kind of draft with RPC servers: each head pass would wait for the network");
  }
  const bool is_open = std::holds_alternative<AutomaticDraft>(options_.draft) || !has_draft(options_.draft);
  if (!is_open || options_.num_draft_tokens == 0 || is_remote) return load(is_asked);
  const OwnHeadInfo head = own_head(parts);
  if (head.is_damaged) note(printable(options_.target) + ": " + head.problem);
  if (!head.problem.empty()) return load(false);
  try {
    load(true);
  } catch (const ModelError& error) {
    load(false);
    note(error.what());
  }
}

// parts: of a draft in a file.
void Generator::load_draft(const std::vector<GgufFile>& parts, HeadKind head_file) {
  if (std::holds_alternative<NgramLookup>(options_.draft)) proposer_ = std::make_unique<NgramProposer>();
  const bool is_automatic = std::holds_alternative<AutomaticDraft>(options_.draft);
  const bool is_suffix = std::holds_alternative<SuffixDecoding>(options_.draft) || is_automatic;
  const std::shared_ptr<const CorpusIndex> corpus = load_draft_corpus(is_suffix);
  if (is_suffix) proposer_ = std::make_unique<SuffixProposer>(corpus);
  if (std::holds_alternative<OwnHead>(options_.draft)) load_head(target_model_, corpus);
  if (parts.empty()) return;
  load_draft_model(parts, head_file != HeadKind::none);
  if (head_file != HeadKind::none) load_head(draft_model_, corpus);
  else load_draft_context(corpus);
}

std::shared_ptr<const CorpusIndex> Generator::load_draft_corpus(bool is_suffix) {
  if (options_.draft_corpus.empty()) return nullptr;
  const bool has_model = draft_path(options_.draft) != nullptr || std::holds_alternative<OwnHead>(options_.draft);
  if (!is_suffix && !(has_model && options_.suffix)) {
    throw WrongValue("draft_corpus", "\"" + options_.draft_corpus + "\"",
                     "used with draft=\"suffix\", or with a draft model and suffix=True");
  }
  DraftCorpus corpus = load_corpus(options_.draft_corpus, target_model_->vocabulary(), options_.progress);
  if (!corpus.note.empty()) notes_.push_back(corpus.note);
  return corpus.index;
}

void Generator::load_draft_model(const std::vector<GgufFile>& parts, bool is_head) {
  Model::Options model;
  model.is_head = is_head;
  model.use_mmap = options_.use_mmap;
  // With RPC servers the draft runs on this machine, because network latency would dominate its short passes.
  model.num_gpu_layers = options_.rpc_servers.empty() ? options_.n_gpu_layers.value_or(0) : 0;
  model.progress = options_.progress;
  draft_model_ = std::make_shared<Model>(parts, model);
  if (const auto difference =
          Vocabulary::first_difference({"draft", draft_model_->vocabulary()}, {"target", target_model_->vocabulary()})) {
    throw VocabularyMismatch("the draft " + draft_model_->path() + " cannot propose tokens for the target " + options_.target + ": " +
                             *difference +
                             (is_head ? ". Use a head that was made for this target" : ". Use a draft of the same model family"));
  }
  const std::uint64_t target = target_model_->weight_bytes(), draft = draft_model_->weight_bytes();
  if (draft <= target) return;  // a pass takes about as long as reading its weights
  notes_.push_back("the draft " + printable(draft_model_->path()) + " (" + mebibytes(draft) + ") is larger than the target " +
                   printable(options_.target) + " (" + mebibytes(target) + "): generation will be slower than without a draft");
}

void Generator::load_draft_context(std::shared_ptr<const CorpusIndex> corpus) {
  Context::Options context;
  context.context_length = std::min(target_->context_length(), draft_model_->trained_context());
  context.batch_size = options_.n_batch;
  context.num_slots = context.max_rows = options_.max_sequences;
  context.kv_type = parse_kv_type(options_.kv_type);
  draft_ = std::make_unique<Context>(draft_model_, threads_, context);
  draft_from(*draft_, std::move(corpus));
}

// model: the target's, or that of a head in a file of its own.
void Generator::load_head(const std::shared_ptr<const Model>& model, std::shared_ptr<const CorpusIndex> corpus) {
  Context::Options context;
  context.context_length = target_->context_length();
  context.batch_size = options_.n_batch;
  // llama.cpp makes logits of every token that such a head reads.
  if (model->head_kind() == HeadKind::eagle3) context.batch_size = std::min(options_.n_batch, std::max(128, options_.max_sequences));
  context.num_slots = context.max_rows = options_.max_sequences;
  context.kv_type = parse_kv_type(options_.kv_type);
  auto& target = static_cast<HeadTarget&>(*target_);
  std::unique_ptr<HeadContext> layers = HeadContext::create(model, threads_, context, target);
  head_ = std::make_unique<DraftingHead>(target, *layers, options_.max_sequences);
  draft_ = std::move(layers);
  draft_from(*head_, std::move(corpus));
}

void Generator::draft_from(LanguageModel& draft, std::shared_ptr<const CorpusIndex> corpus) {
  if (options_.suffix) proposer_ = std::make_unique<CombinedProposer>(draft, target_->vocabulary_size(), std::move(corpus));
  else proposer_ = std::make_unique<DraftModelProposer>(draft, target_->vocabulary_size());
}

// Once the caches have their memory. A draft that is not repacked yet needs the pages of its file.
void Generator::repack() {
  const auto note = [&](const std::string& problem) {
    if (!problem.empty()) notes_.push_back(problem);
  };
  const TileWeights draft_weights = parse_tile_weights(options_.draft_weights);
  const int threads = threads_->size();
  note(target_model_->repack(TileWeights::exact, threads, draft_model_ ? draft_model_->weight_bytes() : 0, options_.progress));
  if (draft_model_) note(draft_model_->repack(draft_weights, threads, 0, options_.progress));
  if (!head_ || draft_weights == TileWeights::exact) return;
  Model& head = draft_model_ ? *draft_model_ : *target_model_;
  note(head.shortlist_output(*target_model_, threads, options_.progress));
}

void Generator::set_cancel_check(std::function<bool()> cancelled) {
  if (draft_) draft_->set_cancel_check(cancelled);
  target_->set_cancel_check(cancelled);
  cancelled_ = std::move(cancelled);
}

std::vector<Token> Generator::prompt_tokens(const Request& request, const std::function<bool()>& cancelled) const {
  std::vector<Token> tokens = request.prompt_tokens;
  if (tokens.empty()) tokens = tokenize_prompt(target_model_->vocabulary(), request.prompt, n_ctx(), cancelled);
  if (tokens.empty()) throw std::invalid_argument("the prompt has no tokens");
  for (const Token token : tokens) check_range("a prompt token", token, token_ids());
  if (static_cast<int>(tokens.size()) > n_ctx()) fail_prompt_too_long(tokens.size(), true, n_ctx());
  return tokens;
}

std::string Generator::note_of(const Request& request) const {
  const Vocabulary vocabulary = target_model_->vocabulary();
  if (!request.prompt_tokens.empty() || !vocabulary.adds_bos() || vocabulary.bos() < 0) return "";
  const std::string bos = vocabulary.piece(vocabulary.bos(), true);
  if (bos.empty() || request.prompt.compare(0, bos.size(), bos) != 0) return "";
  return "the prompt begins with the BOS token " + printable(bos) +
         ", which this model's tokenizer adds by itself: it is there once, not twice";
}

const ChatTemplate& Generator::chat_template() const {
  if (!chat_template_) (void)ChatTemplate::of(chat_texts_);  // throws
  return *chat_template_;
}

MarkedText Generator::chat_prompt(const Conversation& conversation) const { return chat_template().render(conversation, chat_texts_); }

std::shared_ptr<const ChatOutputParser> Generator::prepare_answer(const Conversation& conversation, ToolUse tool_use,
                                                                  Request& request) const {
  if (request.constraint() != nullptr) {  // then all text is the content that was asked for
    if (tool_use.is_required) throw std::invalid_argument("tool_choice requires a call, but the text is constrained; give one of both");
    return nullptr;
  }
  std::shared_ptr<const ChatOutputParser> parser = chat_template().output_parser(conversation, tool_use, chat_texts_);
  if (parser) request.control_tokens = control_tokens(parser->control_tokens());
  if (!tool_use.is_required) return parser;
  if (!parser || parser->grammar().text.empty()) {
    throw std::invalid_argument("tool_choice requires a call, but the model's chat template does not say how it writes one");
  }
  request.grammar = parser->grammar().text;
  request.grammar_prefix = parser->grammar().prefix;
  return parser;
}

// Of these names those that are control tokens of the target.
std::vector<Token> Generator::control_tokens(const std::vector<std::string>& names) const {
  const Vocabulary vocabulary = target_model_->vocabulary();
  std::vector<Token> tokens;
  for (const std::string& name : names) {
    const std::vector<Token> parts = vocabulary.tokenize(name, true);
    for (const Token token : parts) {
      if (vocabulary.piece(token, true) == name && vocabulary.piece(token).empty()) tokens.push_back(token);
    }
  }
  return tokens;
}

std::vector<Token> Generator::chat_tokens(const Conversation& conversation, const std::function<bool()>& cancelled) const {
  return tokenize_prompt(target_model_->vocabulary(), chat_prompt(conversation), n_ctx(), cancelled);
}

void Generator::check_bias(const std::vector<std::pair<Token, double>>& logit_bias) const {
  std::set<Token> banned;
  for (const auto& [token, bias] : logit_bias) {
    if (!token_ids().contains(token)) {
      throw ArgumentError("logit_bias", "has the token " + std::to_string(token) + "; it must be " + token_ids().text());
    }
    if (std::isinf(bias)) banned.insert(token);
  }
  if (static_cast<int>(banned.size()) == target_->vocabulary_size()) throw ArgumentError("logit_bias", "bans every token");
}

// control_tokens: those that are text, see Request.
const ConstraintCompiler& Generator::constraint_compiler(const std::vector<Token>& control_tokens) {
  const std::lock_guard<std::mutex> lock(constraints_mutex_);
  std::unique_ptr<ConstraintCompiler>& compiler = constraints_[control_tokens];
  if (compiler) return *compiler;
  const Vocabulary vocabulary = target_model_->vocabulary();
  std::vector<std::string> pieces(static_cast<std::size_t>(target_->vocabulary_size()));
  std::vector<Token> ends;
  for (Token token = 0; token < target_->vocabulary_size(); ++token) {
    pieces[static_cast<std::size_t>(token)] = vocabulary.piece(token);
    if (vocabulary.is_end_of_generation(token)) ends.push_back(token);
  }
  if (ends.empty()) throw ModelError(options_.target + " has no end-of-generation token, so a constrained output could not end");
  for (const Token token : control_tokens) {
    if (!vocabulary.is_end_of_generation(token)) pieces.at(static_cast<std::size_t>(token)) = vocabulary.piece(token, true);
  }
  compiler = std::make_unique<ConstraintCompiler>(pieces, ends);
  return *compiler;
}

std::unique_ptr<sampling::Constraint> Generator::constraint_of(const Request& request) {
  if (request.constraint() == nullptr) return nullptr;
  const ConstraintCompiler& compiler = constraint_compiler(request.control_tokens);
  if (request.grammar) return compiler.grammar(*request.grammar, request.grammar_prefix);
  return request.json_schema ? compiler.json_schema(*request.json_schema) : compiler.regex(*request.regex);
}

std::shared_ptr<Text> Generator::prepare(const Request& request, const std::function<bool()>& cancelled) {
  request.validate();
  check_bias(request.sampling.logit_bias);
  const int num_draft_tokens = proposer_ && request.max_tokens > 0 ? request.num_draft_tokens.value_or(options_.num_draft_tokens) : 0;
  const std::uint64_t seed = request.seed.value_or(random_seed());
  std::unique_ptr<sampling::Constraint> constraint = constraint_of(request);
  auto text = std::make_shared<Text>(num_texts_++, request, prompt_tokens(request, cancelled), seed, num_draft_tokens);
  text->constrain(std::move(constraint));
  return text;
}

void Generator::start(const Request& request, const PromptProgress& progress) {
  const std::shared_ptr<Text> text = prepare(request, cancelled_);
  stop();
  std::atomic_store(&text_, text);
  read_prompt_of(text, progress);
}

// Nothing else may be running. After an exception nothing is.
void Generator::read_prompt_of(const std::shared_ptr<Text>& text, const PromptProgress& progress) {
  scheduler_->add(text);
  try {
    scheduler_->read_prompt_of(*text, progress);
    text->rethrow_error();
  } catch (...) {
    stop();
    throw;
  }
}

std::optional<Piece> Generator::next() {
  try {
    std::optional<Event> event = scheduler_->next();
    if (!event) return std::nullopt;
    event->text->rethrow_error();
    return std::move(event->piece);
  } catch (...) {
    stop();
    throw;
  }
}

void Generator::stop() { scheduler_->cancel_all(); }

Stats Generator::stats() const {
  const std::shared_ptr<const Text> text = std::atomic_load(&text_);
  return text ? text->sequence().stats : Stats{};
}

std::int64_t Generator::text_id() const {
  const std::shared_ptr<const Text> text = std::atomic_load(&text_);
  return text ? text->id() : -1;
}

std::uint64_t Generator::seed() const {
  const std::shared_ptr<const Text> text = std::atomic_load(&text_);
  return text ? text->seed() : 0;
}

Verification Generator::verification() const {
  const std::shared_ptr<const Text> text = std::atomic_load(&text_);
  return text ? text->verification() : Verification::block;
}

bool Generator::is_repeatable() const {
  const std::shared_ptr<const Text> text = std::atomic_load(&text_);
  return text && text->is_repeatable();
}

std::int64_t Generator::submit(const Request& request) {
  const std::shared_ptr<Text> text = prepare(request, cancelled_);
  scheduler_->add(text);
  return text->id();
}

DraftingState Generator::drafting_state(const Text* text) const {
  const int num_draft_tokens = text != nullptr && proposer_ ? text->sequence().num_draft_tokens : options_.num_draft_tokens;
  return {proposer_ != nullptr, num_draft_tokens, draft_length_.outlook()};
}

Score Generator::score(const Request& request) {
  Request scored = request;
  scored.score_prompt = true;
  scored.max_tokens = 0;
  const std::shared_ptr<Text> text = prepare(scored, cancelled_);
  stop();
  read_prompt_of(text);
  stop();
  return *text->prompt_score();
}

std::unique_ptr<Executor> Generator::make_executor() {
  stop();
  Executor::Options options;
  options.max_unfinished = static_cast<std::size_t>(options_.max_sequences + options_.max_queue_size);
  options.max_prompt_tokens = options_.n_batch;
  options.drafting = [this](const Text& text) { return drafting_report(drafting_state(&text)); };
  const auto set_check = [this](std::function<bool()> cancelled) { set_cancel_check(std::move(cancelled)); };
  return std::make_unique<Executor>(*scheduler_, set_check, options);
}

// What the cache of a model depends on, besides the tokens.
std::string Generator::cache_key(const std::string& path) const {
  const Isa* isa = default_isa().isa;
  return "model " + model_fingerprint(path) + ", " + options_.kv_type + ", " + std::to_string(options_.max_sequences) + " sequences, " +
         (isa == nullptr ? "" : feature_names(isa->usable()));
}

std::string Generator::draft_key() const {
  return !draft_model_ ? cache_key(options_.target) + " mtp" : cache_key(*draft_path(options_.draft)) + options_.draft_weights;
}

int Generator::save_prefix(const std::string& path) const {
  const std::shared_ptr<const Text> text = std::atomic_load(&text_);
  const int count = text && scheduler_->is_cached(*text) ? target_->length(text->sequence().slot) : 0;
  if (count == 0) throw Error("no prompt is cached that could be saved to " + path + "; generate from one first");
  PrefixFile prefix = states().save(text->sequence().slot, text->sequence().tokens, count);
  prefix.target_key = cache_key(options_.target);
  if (prefix.num_draft_tokens > 0) prefix.draft_key = draft_key();
  write_prefix_file(path, prefix);
  return count;
}

int Generator::load_prefix(const std::string& path) {
  PrefixFile prefix = read_prefix_file(path);
  if (prefix.target_key != cache_key(options_.target)) throw UnusableFile(path + ": is of another model, kind of cache or processor");
  const int count = static_cast<int>(prefix.tokens.size());
  if (count > n_ctx()) {
    throw UnusableFile(path + ": has " + std::to_string(count) + " tokens, and the context " + std::to_string(n_ctx()));
  }
  for (const Token token : prefix.tokens) check_range("a token of " + path, token, token_ids());
  stop();
  Request request;
  const auto text = std::make_shared<Text>(num_texts_++, request, prefix.tokens, 0, 0);
  scheduler_->adopt(text);
  if (!draft_ || prefix.draft_key != draft_key()) prefix.num_draft_tokens = 0;  // the draft reads the prompt
  if (!states().restore(0, prefix)) {
    throw UnusableFile(path + ": lacks tokens that had left a sliding window of this model, or is of another kind of cache");
  }
  return count;
}

void Generator::keep_prefixes(const KeptPrefixes& options, std::function<void(const std::string&)> note) {
  PrefixCache::Options cache;
  cache.memory_bytes = options.memory_bytes;
  if (!options.folder.empty()) {
    cache.folder = std::make_unique<PrefixFolder>(options.folder, options.folder_bytes, cache_key(options_.target),
                                                  draft_ ? draft_key() : "", std::move(note));
  }
  cache.goes_back = !target_->has_recurrent_layers() && (!draft_ || !draft_->has_recurrent_layers());
  prefix_cache_ = std::make_unique<PrefixCache>(std::make_unique<ModelStates>(states()), std::move(cache));
  scheduler_->set_prefix_store(prefix_cache_.get());
}

PassTimes Generator::time_passes(int max_tokens, int repeats) {
  check_range("max_tokens", max_tokens, whole_numbers(1, max_draft_tokens + 1));
  check_range("repeats", repeats, whole_numbers(1, 1000));
  if (!text_ || text_->sequence().slot < 0) throw std::logic_error("passes are timed after a text");
  stop();
  const Sequence& s = text_->sequence();
  PassTimes times;
  for (int n = 1; n <= max_tokens; ++n) times.target.push_back(time_pass(scored_target(), s.slot, s.tokens, n, n, repeats));
  if (draft_ == nullptr) return times;
  proposer_->prefill(s, s.num_committed - 1);
  LanguageModel& draft = head_ ? static_cast<LanguageModel&>(*head_) : *draft_;
  times.draft = time_pass(draft, s.slot, s.tokens, 1, 1, repeats);
  return times;
}

std::string Generator::detokenize(const std::vector<Token>& tokens, bool special) const {
  TextStream text({});
  std::string out;
  for (const Token token : tokens) {
    check_range("a token", token, token_ids());
    out += text.push(target_model_->vocabulary().piece(token, special));
  }
  return out + text.finish();
}

}  // namespace specdec
