#include "engine/generator.h"

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

#include "llama/backend.h"
#include "speculative/draft_model_proposer.h"
#include "speculative/error.h"
#include "speculative/ngram_proposer.h"

namespace specdec {
namespace {

constexpr int slot = 0;

void check_range(const char* name, long long value, long long low, long long high) {
  if (value >= low && value <= high) return;
  throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + "; it must be between " + std::to_string(low) + " and " +
                              std::to_string(high));
}

void check_num_draft_tokens(int value) {
  if (value != auto_draft_tokens) check_range("num_draft_tokens", value, 0, max_draft_tokens);
}

FinishReason reason_of(Finish finish) {
  switch (finish) {
    case Finish::max_tokens: return FinishReason::length;
    case Finish::context: return FinishReason::context;
    default: return FinishReason::stop;
  }
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace

Verification verification_named(const std::string& name) {
  if (name == "token") return Verification::token;
  if (name == "block") return Verification::block;
  if (name == "invariant") return Verification::invariant;
  throw std::invalid_argument("verification is \"" + name + "\"; it must be token, block or invariant");
}

Drafting drafting_named(const std::string& name) {
  if (name == "sampled") return Drafting::sampled;
  if (name == "argmax") return Drafting::argmax;
  throw std::invalid_argument("drafting is \"" + name + "\"; it must be sampled or argmax");
}

const char* name(FinishReason reason) {
  switch (reason) {
    case FinishReason::length: return "length";
    case FinishReason::context: return "context";
    default: return "stop";
  }
}

void Request::validate() const {
  sampling.validate();
  if (max_tokens < 0) throw std::invalid_argument("max_tokens is " + std::to_string(max_tokens) + "; it must be 0 or more");
  if (num_draft_tokens) check_num_draft_tokens(*num_draft_tokens);
  if (prompt.empty() && prompt_tokens.empty()) throw std::invalid_argument("the prompt is empty; give at least one character or token");
}

Generator::Generator(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads)
    : options_(options), threads_(std::move(threads)) {
  check_range("n_ctx", options.n_ctx, 0, 1 << 24);
  check_range("n_threads", options.n_threads, 0, 512);
  check_range("n_batch", options.n_batch, max_draft_tokens + 1, 1 << 16);
  check_num_draft_tokens(options.num_draft_tokens);
  const KvType kv_type = parse_kv_type(options.kv_type);

  target_model_ = std::make_shared<Model>(options.target, options.n_gpu_layers);
  if (!options.draft.empty() && !target_model_->can_roll_back()) {
    throw ModelError(options.target + ": architecture " + target_model_->architecture() +
                     " has a recurrent memory that cannot forget rejected drafts; use it without a draft");
  }
  if (!threads_) threads_ = std::make_shared<ThreadPool>(options.n_threads > 0 ? options.n_threads : default_threads());
  Context::Options context;
  context.context_length = options.n_ctx > 0 ? options.n_ctx : std::min(default_context, target_model_->trained_context());
  context.batch_size = options.n_batch;
  context.max_rows = max_draft_tokens + 1;
  context.kv_type = kv_type;
  target_ = std::make_unique<Context>(target_model_, threads_, context);
  if (!options.draft.empty()) load_draft();
  decoder_ = std::make_unique<Decoder>(*target_, proposer_.get(), &draft_length_);
}

void Generator::load_draft() {
  if (options_.draft == "ngram") {
    proposer_ = std::make_unique<NgramProposer>();
    return;
  }
  draft_model_ = std::make_shared<Model>(options_.draft, options_.n_gpu_layers);
  if (!draft_model_->can_roll_back()) {
    throw ModelError(options_.draft + ": architecture " + draft_model_->architecture() +
                     " has a recurrent memory that cannot forget rejected drafts; it cannot be a draft");
  }
  if (const auto difference = Vocabulary::first_difference(draft_model_->vocabulary(), target_model_->vocabulary())) {
    throw VocabularyMismatch("the draft " + options_.draft + " cannot propose tokens for the target " + options_.target + ": " + *difference +
                             ". Use a draft of the same model family");
  }
  Context::Options context;
  context.context_length = std::min(target_->context_length(), draft_model_->trained_context());
  context.batch_size = options_.n_batch;
  context.max_rows = 1;
  context.kv_type = parse_kv_type(options_.kv_type);
  draft_ = std::make_unique<Context>(draft_model_, threads_, context);
  proposer_ = std::make_unique<DraftModelProposer>(*draft_, target_->vocabulary_size());
}

void Generator::set_cancel_check(std::function<bool()> cancelled) {
  if (draft_) draft_->set_cancel_check(cancelled);
  target_->set_cancel_check(std::move(cancelled));
}

std::vector<Token> Generator::prompt_tokens(const Request& request) const {
  std::vector<Token> tokens = request.prompt_tokens.empty() ? tokenize(request.prompt) : request.prompt_tokens;
  if (tokens.empty()) throw std::invalid_argument("the prompt has no tokens");
  for (const Token token : tokens) check_range("a prompt token", token, 0, target_->vocabulary_size() - 1);
  if (static_cast<int>(tokens.size()) > n_ctx()) {
    throw ContextFull("the prompt has " + std::to_string(tokens.size()) + " tokens, the context holds " + std::to_string(n_ctx()) +
                      "; shorten the prompt or ask for a longer context (n_ctx, -c)");
  }
  return tokens;
}

// How many tokens of a new prompt both caches may keep; they are cut to that. The prompt's last token is always read anew.
int Generator::reuse_prefix(const std::vector<Token>& tokens) {
  int common = 0;
  if (sequence_) {
    const std::vector<Token>& cached = sequence_->tokens;
    const auto end = std::mismatch(cached.begin(), cached.begin() + std::min(cached.size(), tokens.size()) , tokens.begin()).first;
    common = static_cast<int>(end - cached.begin());
  }
  common = std::min(common, static_cast<int>(tokens.size()) - 1);
  target_->truncate(slot, common);
  if (proposer_) proposer_->truncate(slot, common);
  return target_->length(slot);
}

void Generator::start(const Request& request) {
  request.validate();
  auto text = std::make_unique<TextStream>(request.stop);
  std::vector<Token> tokens = prompt_tokens(request);
  const std::uint64_t seed = request.seed.value_or(random_seed());
  auto sequence = std::make_unique<Sequence>(slot, request.sampling, std::make_unique<sampling::PhiloxUniforms>(seed, 0));

  stop();
  decoder_->reset_stats();
  const int cached = reuse_prefix(tokens);
  decoder_->count_prompt(static_cast<int>(tokens.size()), cached);
  sequence->num_committed = static_cast<int>(tokens.size());
  sequence->tokens = std::move(tokens);
  sequence->num_draft_tokens = request.num_draft_tokens.value_or(options_.num_draft_tokens);
  sequence->remaining = request.max_tokens;
  sequence->verification = request.verification;
  sequence->drafting = request.drafting;
  sequence_ = std::move(sequence);
  text_ = std::move(text);
  seed_ = seed;
  num_delivered_ = sequence_->num_committed;
  if (request.max_tokens == 0) return;
  decoder_->prefill(*sequence_);
  running_ = true;
}

std::optional<Piece> Generator::next() {
  if (!running_) return std::nullopt;
  if (pending_.empty()) {
    running_ = false;  // unless the cycle succeeds
    decoder_->cycle({sequence_.get()});
    running_ = true;
    pending_.assign(sequence_->emitted.begin(), sequence_->emitted.end());
  }
  const Emission emission = pending_.front();
  pending_.pop_front();
  ++num_delivered_;
  Piece piece = make_piece(emission, pending_.empty() && sequence_->finish != Finish::none);
  if (piece.finish_reason) stop();
  return piece;
}

Piece Generator::make_piece(const Emission& emission, bool last) {
  Piece piece;
  piece.token = emission.token;
  piece.from_draft = emission.from_draft;
  piece.logprob = emission.logprob;
  piece.text = text_->push(target_model_->vocabulary().piece(emission.token));
  if (text_->stopped()) {
    piece.finish_reason = FinishReason::stop;
  } else if (last) {
    piece.text += text_->finish();
    piece.finish_reason = reason_of(sequence_->finish);
  }
  return piece;
}

void Generator::stop() {
  running_ = false;
  pending_.clear();
  if (sequence_) decoder_->truncate(*sequence_, num_delivered_);
}

PassTimes Generator::time_passes(int max_tokens, int repeats) {
  check_range("max_tokens", max_tokens, 1, max_draft_tokens + 1);
  check_range("repeats", repeats, 1, 1000);
  if (!sequence_) throw std::logic_error("passes are timed after a text");
  stop();
  PassTimes times;
  for (int n = 1; n <= max_tokens; ++n) times.target.push_back(time_pass(*target_, slot, sequence_->tokens, n, n, repeats));
  if (draft_ == nullptr) return times;
  proposer_->prefill(*sequence_);
  times.draft = time_pass(*draft_, slot, sequence_->tokens, 1, 1, repeats);
  return times;
}

std::string Generator::detokenize(const std::vector<Token>& tokens) const {
  TextStream text({});
  std::string out;
  for (const Token token : tokens) {
    check_range("a token", token, 0, target_->vocabulary_size() - 1);
    out += text.push(target_model_->vocabulary().piece(token));
  }
  return out + text.finish();
}

}  // namespace specdec
