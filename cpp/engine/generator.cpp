#include "engine/generator.h"

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

#include "base/argument.h"
#include "base/error.h"
#include "base/index.h"
#include "base/utf8.h"
#include "engine/cache_key.h"
#include "engine/prompt.h"
#include "engine/text_stream.h"

namespace specdec {
namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

GeneratorOptions checked(const GeneratorOptions& options) {
  option::check(generator_options(), options);
  return options;
}

// Of a pass over one token whose weights are in memory, at the bandwidth of a slow laptop's.
double seconds_from_memory(std::uint64_t bytes) { return static_cast<double>(bytes) / 15e9; }

// With weights that every pass reads from the disk, a pass costs about the same for many tokens as for one.
AutoOptions auto_options(const Model& target) {
  AutoOptions options;
  const double reading = target.seconds_of_reading();
  if (reading == 0) return options;
  const double from_memory = seconds_from_memory(target.weight_bytes());
  options.costs.tokens_per_reading *= 1 + reading / from_memory;
  options.longest_tried = 32;
  options.leap = 8;
  return options;
}

JsonCalls json_calls(const std::string& name) { return name == "never" ? JsonCalls::never : JsonCalls::without_others; }

}  // namespace

Generator::Generator(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads)
    : options_(checked(options)),
      models_(load_models(options_, std::move(threads))),
      pictures_(models_.shared_target(), models_.picture_options()),
      chat_(models_.target_model(), pictures_, options_.chat_template, models_.n_ctx(),
            json_calls(options_.json_tool_calls)),
      constraints_(models_.vocabulary(), models_.target_context().vocabulary_size(), options_.target),
      tokens_(models_.vocabulary(), models_.target_context().vocabulary_size()),
      draft_length_(auto_options(models_.target_model())),
      decoder_(models_.target(), models_.proposer(), &draft_length_),
      embedder_(models_.shared_target(), models_.threads(), models_.n_ctx()),
      hidden_row_reader_(models_.shared_target(), models_.threads(), models_.n_ctx()),
      scheduler_(decoder_, models_.vocabulary(), options_.max_sequences),
      prefixes_(options_, models_, decoder_, scheduler_, executor_) {
  if (options_.mmproj != "auto") pictures_.load();
  Executor::Options run;
  run.max_unfinished = idx(options_.max_sequences) + idx(options_.max_queue_size);
  run.max_prompt_tokens = options_.n_batch;
  run.drafting = [this](const ScheduledRequest& request) { return drafting_report(drafting_state(&request)); };
  bool knows_costs = false;
  if (options_.auto_cache && has_draft(models_.plan().draft_source) && options_.num_draft_tokens == auto_draft_tokens) {
    auto_cache_.emplace(costs_key(options_, models_));
    if (const std::optional<AutoKnowledge> known = auto_cache_->read()) {
      draft_length_.begin_with(*known);
      knows_costs = true;
    }
  }
  const double reading = models_.target_model().seconds_of_reading();
  if (reading > 0 && !knows_costs) draft_length_.expect(reading, seconds_from_memory(models_.bytes_of_draft_pass()));
  executor_ = std::make_unique<Executor>(
      scheduler_, [this](const CancelCheck& check) { models_.set_cancel_check(check); }, run);
}

Generator::~Generator() {
  if (!is_in_its_process()) {
    (void)executor_.release();  // its mutexes may be locked by a thread that does not exist here
    return;
  }
  executor_.reset();
  if (!auto_cache_) return;
  if (const std::optional<AutoKnowledge> known = draft_length_.knowledge()) auto_cache_->write(*known);
}

std::shared_ptr<RequestHandle> Generator::submit(const Request& request, const CancelCheck& cancelled) {
  return executor_->submit(schedule(request, cancelled));
}

std::shared_ptr<ScheduledRequest> Generator::schedule(const Request& request, const CancelCheck& cancelled) {
  if (!makes_text()) {
    throw std::invalid_argument(
        options_.target + " is an embedding model (" + models_.target_model().architecture() +
        "), which generates no text: ask for embeddings (Python: embed(); server: /v1/embeddings, "
        "/api/embed), or use another model");
  }
  request.validate();
  if (request.slot) check_range("slot", *request.slot, whole_numbers(0, max_sequences() - 1));
  const bool has_source = has_draft(models_.plan().draft_source) || !request.prediction.empty();
  const bool has_drafts = has_source && (request.max_tokens > 0 || request.read_prompt);
  const int num_draft_tokens = has_drafts ? request.num_draft_tokens.value_or(options_.num_draft_tokens) : 0;
  const std::uint64_t seed = request.seed.value_or(random_seed());
  std::unique_ptr<sampling::Constraint> constraint = constraints_.compile(request);
  Text prompt = prompt_of(request, cancelled);
  sampling::TokenRules rules = tokens_.rules(request, prompt.length());
  auto scheduled = std::make_shared<ScheduledRequest>(num_requests_++, request, std::move(prompt), seed,
                                                      num_draft_tokens, std::move(rules));
  if (num_draft_tokens == auto_draft_tokens) {
    scheduled->sequence().max_tree_size = max_tree_size(options_);
    scheduled->sequence().tree_adapts = options_.draft_tree == auto_draft_tokens;
  }
  scheduled->render_by_name(control_tokens(request));
  scheduled->constrain(std::move(constraint));
  scheduled->predict(tokens_.prediction(request));
  return scheduled;
}

Text Generator::prompt_of(const Request& request, const CancelCheck& cancelled) const {
  Text prompt(request.prompt_tokens);
  prompt.pictures = request.pictures;
  if (prompt.tokens.empty()) {
    prompt =
        read_prompt(vocabulary(), pictures_, MarkedText{request.prompt, {}}, request.picture_files, n_ctx(), cancelled);
  }
  if (prompt.tokens.empty()) throw std::invalid_argument("the prompt has no tokens");
  check_tokens("a prompt token", prompt, models_.token_ids());
  if (prompt.length() > n_ctx()) fail_prompt_too_long(prompt.tokens.size(), true, n_ctx());
  if (prompt.pictures.empty()) return prompt;
  if (!models_.target_context().reads_pictures()) throw std::invalid_argument(pictures_.why_not());
  if (prompt.tokens.back() == in_picture)
    throw std::invalid_argument("the prompt ends with a picture; text must follow, for example a question about it");
  if (request.score_prompt)
    throw std::invalid_argument("a prompt with pictures has no scores; leave out score_prompt, or the pictures");
  return prompt;
}

std::string Generator::note_of(const Request& request) const {
  const Vocabulary vocabulary = this->vocabulary();
  if (!request.prompt_tokens.empty() || !vocabulary.adds_bos() || vocabulary.bos() < 0) return "";
  const std::string bos = vocabulary.piece(vocabulary.bos(), true);
  if (bos.empty() || request.prompt.compare(0, bos.size(), bos) != 0) return "";
  return "the prompt begins with the BOS token " + printable(bos) +
         ", which this model's tokenizer also adds; only one is used";
}

DraftingState Generator::drafting_state(const ScheduledRequest* request) const {
  DraftingState state;
  state.has_draft =
      has_draft(models_.plan().draft_source) || (request != nullptr && request->sequence().prediction != nullptr);
  state.num_draft_tokens =
      state.has_draft && request != nullptr ? request->sequence().num_draft_tokens : options_.num_draft_tokens;
  state.outlook = draft_length_.outlook();
  return state;
}

std::string Generator::drafting(const RequestHandle* request) {
  std::string report;
  executor_->run(
      [&] { report = drafting_report(drafting_state(request != nullptr ? request->request().get() : nullptr)); });
  return report;
}

double Generator::plain_seconds_per_token() {
  double seconds = 0;
  executor_->run([&] { seconds = draft_length_.plain_seconds(); });
  return seconds;
}

void Generator::set_remembers_outputs(bool remembers) {
  executor_->run([&] { scheduler_.set_remembers_outputs(remembers); });
}

PassTimes Generator::time_passes(const RequestHandle& after, int max_tokens, int repeats,
                                 const CancelCheck& cancelled) {
  check_range("max_tokens", max_tokens, whole_numbers(1, max_draft_tokens + 1));
  check_range("repeats", repeats, whole_numbers(1, 1000));
  PassTimes times;
  const auto measure = [&] {
    if (!scheduler_.is_idle()) throw Error("cannot time passes while a request is running");
    const ScheduledRequest& request = *after.request();
    if (!scheduler_.is_cached(request)) throw std::logic_error("cannot time passes: the request is no longer cached");
    const Sequence& s = request.sequence();
    for (int n = 1; n <= max_tokens; ++n)
      times.target.push_back(time_pass(models_.target(), s.slot, s.tokens, n, n, repeats));
    if (models_.draft() == nullptr) return;
    models_.proposer()->catch_up(s, s.num_committed - 1);
    times.draft = time_pass(*models_.draft(), s.slot, s.tokens, 1, 1, repeats);
  };
  executor_->run(measure, cancelled);
  return times;
}

void Generator::check_text(const std::vector<Token>& tokens) const {
  if (tokens.empty()) throw std::invalid_argument("the text has no tokens");
  for (const Token token : tokens) check_range("a token", token, models_.token_ids());
  if (static_cast<int>(tokens.size()) > n_ctx()) fail_prompt_too_long(tokens.size(), true, n_ctx());
}

LayerRows Generator::hidden_rows(const std::vector<Token>& tokens, const std::vector<int>& layers, int num_top,
                                 const CancelCheck& cancelled) {
  check_text(tokens);
  if (layers.empty()) throw std::invalid_argument("layers is empty; it must name at least one layer");
  for (const int layer : layers) check_range("a layer", layer, whole_numbers(0, models_.target_model().num_layers()));
  check_range("top_logprobs", num_top, whole_numbers(0, models_.target_context().vocabulary_size()));
  LayerRows rows;
  const auto is_over = [&] { return executor_->is_closed() || (cancelled && cancelled()); };
  executor_->run([&] { rows = hidden_row_reader_.read(tokens, layers, num_top, is_over); });
  return rows;
}

std::vector<float> Generator::embed(const std::vector<Token>& tokens, const CancelCheck& cancelled) {
  check_text(tokens);
  std::vector<float> row;
  const auto is_over = [&] { return executor_->is_closed() || (cancelled && cancelled()); };
  executor_->run([&] { row = embedder_.embed(tokens, is_over); });
  return row;
}

std::string Generator::detokenize(const std::vector<Token>& tokens, bool special) const {
  TextStream text({});
  std::string out;
  for (const Token token : tokens) {
    check_range("a token", token, models_.token_ids());
    out += text.push(vocabulary().piece(token, special));
  }
  return out + text.finish();
}

}  // namespace specdec
