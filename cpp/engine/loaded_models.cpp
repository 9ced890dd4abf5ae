#include "engine/loaded_models.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/utf8.h"
#include "engine/draft_corpus.h"
#include "engine/memory.h"
#include "engine/pass_times.h"
#include "llama/backend.h"
#include "llama/block_context.h"
#include "llama/embedding_context.h"
#include "model_file/block_file.h"
#include "model_file/encoder.h"
#include "platform/cores.h"
#include "platform/memory.h"
#include "speculative/block_drafter.h"
#include "speculative/combined_proposer.h"
#include "speculative/drafting_head.h"
#include "speculative/layered_head.h"
#include "speculative/ngram_proposer.h"
#include "speculative/suffix_proposer.h"

namespace specdec {
namespace {

// Snapshots of recurrent layers if the number of drafts is not fixed. Longer drafts (copies) are rolled back from a
// checkpoint.
constexpr int default_snapshots = 8;
constexpr int timed_passes = 9;
constexpr int max_rows = 512;  // rows of logits per pass: 300 MB for a vocabulary of 152,000

std::string in_milliseconds(double seconds) { return format("%.2f ms", 1e3 * seconds); }

}  // namespace

LoadedModels::LoadedModels(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads)
    : options_(options), threads_(std::move(threads)) {
  const std::vector<GgufFile> target = GgufFile::read_parts(options.target);
  open_tile_cache();
  if (!threads_) threads_ = std::make_shared<ThreadPool>(options.n_threads ? *options.n_threads : default_threads());
  try {
    load(target);
  } catch (const ModelError& error) {
    if (default_layers_ == 0) throw;  // the CPU, or a place that was asked for
    failed_device_ = error.what();
    unload();
    load(target);
  }
  notes_.insert(notes_.begin(), resolved_.notes.begin(), resolved_.notes.end());
}

void LoadedModels::load(const std::vector<GgufFile>& target) {
  resolved_ = resolve_draft(options_, target);
  const int context = context_length(target);
  load_target(target, context);
  make_contexts(target, context);
  if (options_.repack) repack();
  choose_place_of_draft();
  note_weights_without_kernels(*target_model_);
  if (draft_model_) note_weights_without_kernels(*draft_model_);
}

// What uses something comes before it.
void LoadedModels::unload() {
  unload_contexts();
  target_model_.reset();
  target_place_ = draft_place_ = Place();
  default_layers_ = 0;
  bytes_on_devices_.clear();
}

void LoadedModels::unload_contexts() {
  proposer_.reset();
  head_.reset();
  drafts_.clear();
  head_target_ = nullptr;
  target_.reset();
  draft_model_.reset();
}

void LoadedModels::note(const std::string& sentence) {
  const bool is_said = std::find(notes_.begin(), notes_.end(), sentence) != notes_.end();  // for the other model
  if (!sentence.empty() && !is_said) notes_.push_back(sentence);
}

void LoadedModels::note_weights_without_kernels(const Model& model) {
  if (model.weights_without_kernels().empty()) return;
  note("weights of " + printable(model.path()) + " stay on the CPU, since there are no kernels for them on " +
       model.device_names() + ": " + model.weights_without_kernels());
}

Model::Options LoadedModels::model_options() const {
  Model::Options model;
  model.use_mmap = options_.use_mmap;
  model.progress = options_.progress;
  model.tile_cache = tile_cache_;
  return model;
}

void LoadedModels::open_tile_cache() {
  if (options_.tile_cache.empty() || !options_.repack) return;
  try {
    tile_cache_ = std::make_shared<TileCache>(
        parse_folder_limit(options_.tile_cache, std::uint64_t{default_tile_cache_mib} << 20));
  } catch (const Error& error) {
    note(std::string("repacked weights are not kept: ") + error.what());
  }
}

LoadedModels::Place LoadedModels::place_on_devices(Model::Options& model, const std::vector<GgufFile>& parts,
                                                   const WantedPlace& wanted, int context, int most_rows) {
  const auto cells = static_cast<std::uint64_t>(context) * static_cast<std::uint64_t>(options_.max_sequences);
  const int rows = options_.exact ? exact_width : most_rows;
  Placement placed;
  LayerNeed need;
  try {
    model.offload.split = split_of(options_);
    if (wanted.num_layers == 0) return {};
    const bool is_local = model.rpc_servers.empty();  // else the split counts the servers' devices, too
    model.offload.overrides = overrides_of(wanted);
    // We compute what a block drafter adds to its rows (llama/block_rows.h).
    if (model.is_head)
      model.offload.overrides.insert(model.offload.overrides.begin(), {"^(markov_|conf|d2t)", nullptr});
    need = layer_need(parts, model.offload, cells, parse_kv_type(options_.kv_type), options_.n_batch, rows);
    placed = place(parts, need, wanted.num_layers, wanted.devices,
                   is_local ? model.offload.split : std::vector<float>(), bytes_on_devices_);
    if (is_local) model.offload.split = placed.shares;
  } catch (const std::invalid_argument& unknown) {
    throw Error(unknown.what());
  }
  model.offload.devices = placed.handles();
  model.offload.num_layers = placed.num_layers;
  Place result;
  result.text = placed.text;
  for (std::size_t i = 0; i < placed.devices.size(); ++i) {
    const Device& device = placed.devices[i];
    const int layers = placed.division.layers[i];
    bytes_on_devices_[device.handle] += placed.division.bytes[i];
    if (layers == 0) continue;
    result.key += ", " + std::to_string(layers) + " layers on " + device.name + " " + device.description;
    result.devices += (result.devices.empty() ? "" : " and ") + device.name;
  }
  note(placed.note);
  if (placed.devices.empty()) return result;
  result.key += overrides_key(wanted, need.num_layers());
  result.key += options_.exact ? ", exact" : ", not exact";
  return result;
}

// The most tokens of the target's passes. A draft's passes need none: its rows do not decide the output.
int LoadedModels::width_of(const Model& model) const {
  return options_.exact && model.is_on_device() ? exact_width : 0;
}

// How many layers run on devices if no number was given, and why.
int LoadedModels::default_layers(std::string& why) {
  if (!options_.devices.empty()) return layers_that_fit;
  if (!failed_device_.empty()) {
    why = "the CPU runs all layers, since a device failed: " + failed_device_;
    return 0;
  }
  const DefaultPlace place = default_place(threads_->size(), options_.exact);
  if (place.why.empty()) return 0;
  why = place.why + " (n_gpu_layers, -ngl, chooses otherwise)";
  return place.is_device ? layers_that_fit : 0;
}

// Loads the target, with its own head if that drafts. If the head was found rather than asked for and cannot be loaded,
// the target is loaded without it.
void LoadedModels::load_target(const std::vector<GgufFile>& parts, int context) {
  Model::Options model = model_options();
  model.rpc_servers = options_.rpc_servers;
  const bool names_devices = !options_.devices.empty();
  if (options_.rpc_servers.empty() || names_devices) {
    std::string why;
    if (!options_.n_gpu_layers) default_layers_ = default_layers(why);
    const WantedPlace wanted{options_.n_gpu_layers.value_or(default_layers_), options_.devices, options_.n_cpu_moe,
                             options_.override_tensor};
    target_place_ = place_on_devices(model, parts, wanted, context, max_rows);
    target_place_.text += (why.empty() || target_place_.text.empty() ? "" : "; ") + why;
  } else {
    const int wanted = options_.n_gpu_layers.value_or(all_layers);
    model.offload.num_layers = wanted == layers_that_fit ? all_layers : wanted;
  }
  model.with_head = std::holds_alternative<OwnHead>(resolved_.source);
  try {
    target_model_ = std::make_shared<Model>(parts, model);
  } catch (const ModelError& error) {
    if (!model.with_head || std::holds_alternative<OwnHead>(options_.draft)) throw;
    model.with_head = false;
    target_model_ = std::make_shared<Model>(parts, model);
    resolved_ = resolve_draft(options_, parts, false);
    note(std::string("drafts do not come from the model's own head: ") + error.what());
  }
  if (!target_model_->is_encoder() && options_.n_ctx.value_or(0) > target_model_->trained_context()) {
    note("a context of " + std::to_string(*options_.n_ctx) + " tokens is longer than what " +
         printable(options_.target) + " was trained for, " + std::to_string(target_model_->trained_context()) +
         ": text beyond that is likely to be poor");
  }
}

// Called before anything takes memory.
int LoadedModels::context_length(const std::vector<GgufFile>& target) {
  // An encoder may have no positions beyond.
  if (is_encoder(target.front().string("general.architecture").value_or(""))) {
    const int trained = trained_context(target), wanted = options_.n_ctx.value_or(trained);
    if (wanted > trained) {
      note("the context is " + std::to_string(trained) + " tokens long: " + printable(options_.target) +
           " cannot read longer texts");
    }
    return wanted > 0 ? std::min(wanted, trained) : trained;
  }
  if (options_.n_ctx.value_or(1) > 0) return options_.n_ctx.value_or(default_context_of(target));
  const int trained = trained_context(target);
  const int length = longest_context(options_, target, resolved_.parts, available_memory());
  note("the context is " + std::to_string(length) + " tokens long: " +
       (length == trained ? "all" : "as much as fits into memory of the " + std::to_string(trained)) + " that " +
       printable(options_.target) + " was trained with");
  return length;
}

// A head that was found rather than asked for may need layers that llama.cpp does not expose.
void LoadedModels::make_contexts(const std::vector<GgufFile>& target, int context_length) {
  try {
    make_target_context(context_length);
    load_draft();
  } catch (const ModelError& error) {
    if (!resolved_.was_chosen || resolved_.head.kind == HeadKind::none) throw;
    note("drafts do not come from " + printable(resolved_.parts.front().path) + ": " + error.what());
    unload_contexts();
    resolved_ = resolve_draft(options_, target, true, false);
    make_target_context(context_length);
    load_draft();
  }
}

void LoadedModels::make_target_context(int context_length) {
  Context::Options context;
  context.context_length = context_length;
  context.num_slots = options_.max_sequences;
  if (target_model_->is_encoder()) {
    context.batch_size = context.max_rows = options_.max_sequences;
    target_ = std::make_unique<UnreadContext>(target_model_, threads_, context);
    return;
  }
  context.batch_size = options_.n_batch;
  const int rows = max_draft_tokens + 1;  // of one sequence
  context.max_rows = std::max(rows, std::min({options_.max_sequences * rows, options_.n_batch, max_rows}));
  context.kv_type = parse_kv_type(options_.kv_type);
  context.width = width_of(*target_model_);
  if (has_draft(resolved_.source)) {
    context.num_snapshots = options_.num_draft_tokens > 0 ? options_.num_draft_tokens : default_snapshots;
  }
  if (target_model_->has_head() || resolved_.head.kind != HeadKind::none) {
    const HeadTarget::Rows hidden{resolved_.head.target_layers, resolved_.head.kind != HeadKind::block};
    auto target = std::make_unique<HeadTarget>(target_model_, threads_, context, hidden);
    head_target_ = target.get();
    target_ = std::move(target);
  } else {
    target_ = std::make_unique<Context>(target_model_, threads_, context);
  }
  target_->leave_out_padding();
  if (!target_->lacks_snapshots()) return;
  note(printable(options_.target) + ": there is no memory for snapshots of the recurrent state (" +
       std::to_string(context.num_snapshots) +
       " for each sequence), so rejected drafts are rolled back by a copy of it, " +
       "which takes longer. Ask for fewer sequences, a shorter context (n_ctx, -c), or fewer drafts (num_draft_tokens, "
       "-k)");
}

void LoadedModels::load_draft() {
  const DraftSource& source = resolved_.source;
  corpus_ = load_corpus();
  if (std::holds_alternative<NoDraft>(source)) {  // for requests with a prediction of their output
    proposer_ = std::make_unique<SuffixProposer>(nullptr, CopiedTexts::predictions);
  }
  if (std::holds_alternative<NgramLookup>(source)) proposer_ = std::make_unique<NgramProposer>();
  if (std::holds_alternative<SuffixDecoding>(source)) proposer_ = std::make_unique<SuffixProposer>(corpus_);
  if (std::holds_alternative<OwnHead>(source)) make_head_context(target_model_);
  if (resolved_.parts.empty()) return;
  load_draft_model();
  if (resolved_.head.kind == HeadKind::block) make_block_context();
  else if (resolved_.head.kind != HeadKind::none) make_head_context(draft_model_);
  else make_draft_context();
}

std::shared_ptr<const CorpusIndex> LoadedModels::load_corpus() {
  if (options_.draft_corpus.empty()) return nullptr;
  DraftCorpus corpus = specdec::load_corpus(options_.draft_corpus, vocabulary(), options_.progress);
  note(corpus.note);
  return corpus.index;
}

void LoadedModels::load_draft_model() {
  const bool is_head = resolved_.head.kind != HeadKind::none;
  Model::Options model = model_options();
  model.is_head = is_head;
  // With RPC servers the draft runs on this machine: network latency would dominate its short passes.
  const std::vector<std::string>& devices = options_.devices_draft.empty() ? options_.devices : options_.devices_draft;
  const bool is_local = options_.rpc_servers.empty() || !options_.devices_draft.empty();
  const int as_target =
      !is_local ? 0 : options_.n_gpu_layers.value_or(devices.empty() ? default_layers_ : layers_that_fit);
  const int context = is_head ? n_ctx() : std::min(n_ctx(), default_draft_window);
  const WantedPlace wanted{options_.n_gpu_layers_draft.value_or(as_target), devices, options_.n_cpu_moe_draft,
                           options_.override_tensor_draft};
  draft_place_ = place_on_devices(model, resolved_.parts, wanted, context, options_.max_sequences);
  draft_model_ = std::make_shared<Model>(resolved_.parts, model);
  if (const auto difference =
          Vocabulary::first_difference({"draft", draft_model_->vocabulary()}, {"target", vocabulary()})) {
    throw VocabularyMismatch(
        "the draft " + draft_model_->path() + " cannot propose tokens for the target " + options_.target + ": " +
        *difference +
        (is_head ? ". Use a head that was made for this target" : ". Use a draft of the same model family"));
  }
  const std::uint64_t target = target_model_->weight_bytes(), draft = draft_model_->weight_bytes();
  if (draft <= target) return;  // a pass takes about as long as reading its weights
  note("the draft " + printable(draft_model_->path()) + " (" + mebibytes(draft) + ") is larger than the target " +
       printable(options_.target) + " (" + mebibytes(target) + "): generation will be slower than without a draft");
}

void LoadedModels::make_draft_context() {
  Context::Options context;
  const int trained = draft_model_->trained_context();
  draft_window_ = specdec::draft_window(options_, n_ctx(), trained);
  if (draft_window_ > trained) {
    throw WrongValue("draft_window", std::to_string(draft_window_),
                     "at most " + std::to_string(trained) + ", the context that the draft " + draft_model_->path() +
                         " was trained with");
  }
  context.context_length = std::min(n_ctx(), draft_window_);
  context.holds_window = true;
  context.batch_size = options_.n_batch;
  context.num_slots = context.max_rows = options_.max_sequences;
  context.kv_type = parse_kv_type(options_.kv_type);
  auto draft = std::make_unique<Context>(draft_model_, threads_, context);
  draft_from({*draft, target_->vocabulary_size(), draft_window_});
  drafts_.push_back(std::move(draft));
}

double LoadedModels::seconds_of_draft_pass() {
  return time_pass(*drafts_.front(), 0, {std::max(0, vocabulary().bos())}, 1, 1, timed_passes);
}

// A draft's passes are so short that a device may need longer to start its kernels than the CPU needs to compute them.
// So a draft model whose place was not named is also loaded on the CPU, and stays where a pass over one token is
// faster.
void LoadedModels::choose_place_of_draft() {
  const bool is_named = options_.n_gpu_layers_draft.has_value() || !options_.devices_draft.empty() ||
                        options_.n_cpu_moe_draft > 0 || !options_.override_tensor_draft.empty();
  if (is_named || head_ || !draft_model_ || !draft_model_->is_on_device()) return;
  const double on_device = seconds_of_draft_pass();
  std::shared_ptr<Model> model = draft_model_;
  std::vector<std::unique_ptr<Context>> contexts = std::move(drafts_);
  std::unique_ptr<Proposer> proposer = std::move(proposer_);
  const auto keep_on_device = [&](const std::string& why) {
    drafts_ = std::move(contexts);  // before the model that they use
    draft_model_ = model;
    proposer_ = std::move(proposer);
    draft_place_.text += "; " + why;
  };
  drafts_.clear();
  try {
    draft_model_ = std::make_shared<Model>(resolved_.parts, model_options());
    make_draft_context();
    const std::string problem = options_.repack ? draft_model_->repack(parse_tile_weights(options_.draft_weights),
                                                                       threads_->size(), 0, options_.progress)
                                                : "";
    const double on_cpu = seconds_of_draft_pass();
    if (on_device <= on_cpu) {
      keep_on_device("a pass takes " + in_milliseconds(on_device) + " there, " + in_milliseconds(on_cpu) +
                     " on the CPU");
      return;
    }
    note(problem);
    const std::string file = std::filesystem::path(draft_model_->path()).filename().string();
    const std::string text = printable(file) + " runs on the CPU: a pass takes " + in_milliseconds(on_cpu) +
                             " there, " + in_milliseconds(on_device) + " on " + draft_place_.devices +
                             "; n_gpu_layers_draft (-ngld) chooses otherwise";
    draft_place_ = Place();
    draft_place_.text = text;
  } catch (const ModelError& error) {
    keep_on_device(std::string("it cannot be tried on the CPU: ") + error.what());
  }
}

// model: the target's, or the model of a head's own file.
void LoadedModels::make_head_context(const std::shared_ptr<const Model>& model) {
  Context::Options context;
  context.context_length = target_->context_length();
  context.batch_size = options_.n_batch;
  // llama.cpp computes logits for every token that an EAGLE-3 head reads.
  if (model->head_kind() == HeadKind::eagle3)
    context.batch_size = std::min(options_.n_batch, std::max(128, options_.max_sequences));
  context.num_slots = context.max_rows = options_.max_sequences;
  context.kv_type = parse_kv_type(options_.kv_type);
  std::vector<HeadLayers*> layers;
  const int num_layers = model->head_kind() == HeadKind::mtp ? model->num_head_layers() : 1;
  for (int layer = 0; layer < num_layers; ++layer) {
    auto one = HeadContext::create(model, threads_, context, *head_target_, layer);
    layers.push_back(one.get());
    drafts_.push_back(std::move(one));
  }
  if (num_layers == 1) head_ = std::make_unique<DraftingHead>(*head_target_, *layers[0], options_.max_sequences);
  else head_ = std::make_unique<LayeredHead>(*head_target_, layers, options_.max_sequences);
  draft_from({*head_, target_->vocabulary_size()});
}

void LoadedModels::make_block_context() {
  Context::Options target;
  target.batch_size = options_.n_batch;
  target.num_slots = options_.max_sequences;
  target.kv_type = parse_kv_type(options_.kv_type);
  const BlockFile file = block_file(resolved_.parts);
  const Context::Options options = BlockContext::options_for(*head_target_, target, file);
  auto layers = std::make_unique<BlockContext>(draft_model_, threads_, options, *head_target_, file);
  head_ = std::make_unique<BlockDrafter>(*head_target_, *layers, options_.max_sequences);
  drafts_.push_back(std::move(layers));
  draft_from({*head_, target_->vocabulary_size()});
}

void LoadedModels::draft_from(DraftModelProposer model) {
  const CopiedTexts texts = options_.suffix ? CopiedTexts::all : CopiedTexts::predictions;
  proposer_ = std::make_unique<CombinedProposer>(std::move(model), corpus_, texts);
}

// Called once the caches have their memory. Until a draft is repacked, it needs the pages of its file.
void LoadedModels::repack() {
  const TileWeights draft_weights = parse_tile_weights(options_.draft_weights);
  const int threads = threads_->size();
  note(target_model_->repack(TileWeights::exact, threads, draft_model_ ? draft_model_->weight_bytes() : 0,
                             options_.progress));
  if (draft_model_) note(draft_model_->repack(draft_weights, threads, 0, options_.progress));
  if (tile_cache_) {
    for (const std::string& sentence : tile_cache_->take_notes()) note(sentence);
  }
  if (!head_ || draft_weights == TileWeights::exact) return;
  Model& head = draft_model_ ? *draft_model_ : *target_model_;
  note(head.shortlist_output(*target_model_, threads, options_.progress));
}

void LoadedModels::set_cancel_check(const std::function<bool()>& cancelled) {
  for (const auto& draft : drafts_) draft->set_cancel_check(cancelled);
  target_->set_cancel_check(cancelled);
}

}  // namespace specdec
