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
#include "engine/placement.h"
#include "llama/backend.h"
#include "llama/block_context.h"
#include "llama/embedding_context.h"
#include "llama/streamed_weights.h"
#include "model_file/block_file.h"
#include "model_file/encoder.h"
#include "platform/cores.h"
#include "platform/memory.h"
#include "platform/user_folder.h"
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

std::string in_milliseconds(double seconds) { return format("%.2f ms", 1e3 * seconds); }

// Null, with a note, if it cannot be used.
std::shared_ptr<TileCache> open_tile_cache(const GeneratorOptions& options, const StreamingPlan& streaming,
                                           std::vector<std::string>& notes) {
  const std::string own_folder = user_cache_folder();
  const bool uses_own =
      streaming.is_needed() && streaming.for_weights() > 0 && options.tile_cache.empty() && !own_folder.empty();
  if (!uses_own && (options.tile_cache.empty() || !options.repack)) return nullptr;
  try {
    const std::uint64_t most = std::uint64_t{default_tile_cache_mib} << 20;
    // Tiles of some types are larger than the file.
    if (uses_own)
      return std::make_shared<TileCache>(FolderLimit{own_folder + "/tiles", std::max(most, 2 * streaming.weights)});
    return std::make_shared<TileCache>(parse_folder_limit(options.tile_cache, most));
  } catch (const Error& error) {
    notes.push_back(std::string("repacked weights are not kept: ") + error.what());
    return nullptr;
  }
}

// Leaves out what may be the reason for a failure. Returns false if all that is left was asked for.
bool leave_out(const ModelPlan& plan, LoadedModels::Stage failed, const std::string& why, LeftOut& without) {
  if (plan.has_found_own_head && failed == LoadedModels::Stage::target) {
    without.own_head = true;
    without.notes.push_back("drafts do not come from the model's own head: " + why);
  } else if (plan.has_found_head_file && failed == LoadedModels::Stage::contexts) {
    without.found_heads = true;
    without.notes.push_back("drafts do not come from " + printable(plan.draft->parts.front().path) + ": " + why);
  } else if (plan.rounds_target && failed == LoadedModels::Stage::contexts) {
    without.rounded_target = true;
  } else if (plan.has_default_place) {
    without = {};  // heads may work on the CPU
    without.failed_device = why;
  } else {
    return false;
  }
  return true;
}

}  // namespace

LoadedModels load_models(const GeneratorOptions& options, std::shared_ptr<ThreadPool> threads) {
  const std::vector<GgufFile> target = GgufFile::read_parts(options.target);
  if (!threads) threads = std::make_shared<ThreadPool>(options.n_threads ? *options.n_threads : default_threads());
  LeftOut without;
  for (;;) {
    const ModelPlan plan = plan_models(options, target, threads->size(), without);
    LoadedModels::Stage stage{};
    try {
      return LoadedModels(options, plan, threads, stage);
    } catch (const ModelError& error) {
      if (!leave_out(plan, stage, error.what(), without)) throw;
    }
  }
}

LoadedModels::LoadedModels(const GeneratorOptions& options, const ModelPlan& plan, std::shared_ptr<ThreadPool> threads,
                           Stage& stage)
    : options_(options),
      plan_(plan),
      notes_(plan.notes),
      draft_place_(plan.draft ? plan.draft->place : Place()),
      tile_cache_(open_tile_cache(options, plan_.streaming, notes_)),
      threads_(std::move(threads)) {
  stage = Stage::target;
  target_model_ = std::make_shared<Model>(plan_.target.parts, model_options(plan_.target));
  stage = Stage::contexts;
  make_target_context();
  make_proposer();
  stage = Stage::weights;
  if (options_.repack) repack();
  if (plan_.compares_places_of_draft) choose_place_of_draft();
  note_weights_without_kernels(*target_model_);
  if (draft_model_) note_weights_without_kernels(*draft_model_);
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

PictureReader::Options LoadedModels::picture_options() const {
  return {plan_.projector.path, plan_.projector.why_not, threads_->size(), options_.n_batch};
}

std::string LoadedModels::placement() const {
  const std::string &target = place_of_target().text, &draft = place_of_draft().text;
  return target + (target.empty() || draft.empty() ? "" : "; ") + draft;
}

Model::Options LoadedModels::model_options(const PlannedModel& planned) const {
  Model::Options model;
  model.use_mmap = options_.use_mmap;
  model.offload = planned.offload;
  model.rpc_servers = planned.rpc_servers;
  model.with_head = planned.with_head;
  model.is_head = planned.is_head;
  model.progress = options_.progress;
  model.tile_cache = tile_cache_;
  model.streams = plan_.streaming.is_needed();  // no file is read ahead
  return model;
}

void LoadedModels::make_target_context() {
  Context::Options context;
  context.context_length = plan_.context_length;
  context.num_slots = options_.max_sequences;
  if (target_model_->is_encoder()) {
    context.batch_size = context.max_rows = options_.max_sequences;
    target_ = std::make_unique<UnreadContext>(target_model_, threads_, context);
    return;
  }
  context.batch_size = options_.n_batch;
  const int rows = max_draft_tokens + 1;  // of one sequence
  context.max_rows = std::max(rows, std::min({options_.max_sequences * rows, options_.n_batch, max_logit_rows}));
  context.kv_type = parse_kv_type(options_.kv_type);
  // A draft's passes need no width: its rows do not decide the output.
  context.width = options_.exact && target_model_->is_on_device() ? exact_width : 0;
  context.reads_pictures = plan_.projector.why_not.empty();
  if (has_draft(plan_.draft_source)) {
    context.num_snapshots = options_.num_draft_tokens > 0 ? options_.num_draft_tokens : default_snapshots;
  }
  if (target_model_->has_head() || plan_.head.kind != HeadKind::none) {
    const HeadTarget::Rows hidden{plan_.head.target_layers, plan_.head.kind != HeadKind::block};
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

void LoadedModels::make_proposer() {
  const DraftSource& source = plan_.draft_source;
  corpus_ = load_corpus();
  if (std::holds_alternative<NoDraft>(source)) {  // for requests with a prediction of their output
    proposer_ = std::make_unique<SuffixProposer>(nullptr, CopiedTexts::predictions);
  }
  if (std::holds_alternative<NgramLookup>(source)) proposer_ = std::make_unique<NgramProposer>();
  if (std::holds_alternative<SuffixDecoding>(source)) proposer_ = std::make_unique<SuffixProposer>(corpus_);
  if (std::holds_alternative<OwnHead>(source)) make_head_context(target_model_);
  if (plan_.rounds_target) {
    if (!target_->reads_trees()) throw ModelError(options_.target + ": its state cannot branch");
    self_draft_ = std::make_unique<SelfDraft>(*target_, options_.max_sequences);
    draft_from({*self_draft_, target_->vocabulary_size()});
  }
  if (!plan_.draft) return;
  load_draft_model();
  if (plan_.head.kind == HeadKind::block) return make_block_context();
  if (plan_.head.kind != HeadKind::none) return make_head_context(draft_model_);
  drafts_.push_back(make_draft_context(draft_model_));
  draft_from({*drafts_.front(), target_->vocabulary_size(), plan_.draft_window});
}

std::shared_ptr<const CorpusIndex> LoadedModels::load_corpus() {
  if (options_.draft_corpus.empty()) return nullptr;
  DraftCorpus corpus = specdec::load_corpus(options_.draft_corpus, vocabulary(), options_.progress);
  note(corpus.note);
  return corpus.index;
}

void LoadedModels::load_draft_model() {
  draft_model_ = std::make_shared<Model>(plan_.draft->parts, model_options(*plan_.draft));
  if (const auto difference =
          Vocabulary::first_difference({"draft", draft_model_->vocabulary()}, {"target", vocabulary()})) {
    throw VocabularyMismatch("the draft " + draft_model_->path() + " cannot propose tokens for the target " +
                             options_.target + ": " + *difference +
                             (plan_.draft->is_head ? ". Use a head that was made for this target"
                                                   : ". Use a draft of the same model family"));
  }
  const std::uint64_t target = target_model_->weight_bytes(), draft = draft_model_->weight_bytes();
  if (draft <= target) return;  // a pass takes about as long as reading its weights
  note("the draft " + printable(draft_model_->path()) + " (" + mebibytes(draft) + ") is larger than the target " +
       printable(options_.target) + " (" + mebibytes(target) + "): generation will be slower than without a draft");
}

std::unique_ptr<Context> LoadedModels::make_draft_context(const std::shared_ptr<const Model>& model) const {
  Context::Options context;
  context.context_length = std::min(n_ctx(), plan_.draft_window);
  context.holds_window = true;
  context.batch_size = options_.n_batch;
  context.num_slots = options_.max_sequences;
  context.max_rows = rows_of_draft(options_);
  context.kv_type = parse_kv_type(options_.kv_type);
  return std::make_unique<Context>(model, threads_, context);
}

double LoadedModels::seconds_of_pass(Context& draft) const {
  return time_pass(draft, 0, {std::max(0, vocabulary().bos())}, 1, 1, timed_passes);
}

// A draft's passes are so short that a device may need longer to start its kernels than the CPU needs to compute them.
// So it is also loaded on the CPU, and stays where a pass over one token is faster.
void LoadedModels::choose_place_of_draft() {
  const double on_device = seconds_of_pass(*drafts_.front());
  PlannedModel planned = *plan_.draft;
  planned.offload = {};
  try {
    const auto model = std::make_shared<Model>(planned.parts, model_options(planned));
    std::unique_ptr<Context> context = make_draft_context(model);
    const std::string problem =
        options_.repack ? model->repack(parse_tile_weights(plan_.draft_weights), threads_->size(), 0, options_.progress)
                        : "";
    const double on_cpu = seconds_of_pass(*context);
    const std::string device_time = in_milliseconds(on_device), cpu_time = in_milliseconds(on_cpu);
    if (on_device <= on_cpu) {
      draft_place_.text += "; a pass takes " + device_time + " there, " + cpu_time + " on the CPU";
      return;
    }
    note(problem);
    const std::string file = std::filesystem::path(model->path()).filename().string();
    const std::string text = printable(file) + " runs on the CPU: a pass takes " + cpu_time + " there, " + device_time +
                             " on " + draft_place_.devices + "; n_gpu_layers_draft (-ngld) chooses otherwise";
    draft_place_ = {"", text, ""};
    draft_from({*context, target_->vocabulary_size(), plan_.draft_window});
    drafts_.front() = std::move(context);  // before the model that it used
    draft_model_ = model;
  } catch (const ModelError& error) {
    draft_place_.text += std::string("; it cannot be tried on the CPU: ") + error.what();
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
  context.num_slots = options_.max_sequences;
  context.max_rows = rows_of_draft(options_);
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
  const BlockFile file = block_file(plan_.draft->parts);
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
  const TileWeights draft_weights = parse_tile_weights(plan_.draft_weights);
  const int threads = threads_->size();
  if (!plan_.streaming.is_needed()) repack_target();
  if (draft_model_) note(draft_model_->repack(draft_weights, threads, 0, options_.progress));
  if (plan_.streaming.is_needed()) stream_target();  // once the draft has released its file's pages
  const bool has_room = !plan_.streaming.is_needed() || target_model_->streamed_weights() != nullptr;
  if (plan_.rounds_target && has_room) note(target_model_->round(weights_of_copies(), threads, options_.progress));
  if (tile_cache_) {
    for (const std::string& sentence : tile_cache_->take_notes()) note(sentence);
  }
  if (!head_ || draft_weights == TileWeights::exact) return;
  Model& head = draft_model_ ? *draft_model_ : *target_model_;
  note(head.shortlist_output(*target_model_, threads, options_.progress));
}

TileWeights LoadedModels::weights_of_copies() const {
  return plan_.rounds_target ? parse_tile_weights(plan_.draft_weights) : TileWeights::exact;
}

std::uint64_t LoadedModels::bytes_of_draft_pass() const {
  if (draft_model_) return draft_model_->weight_bytes();
  const RoundedWeights* const rounded = target_model_->rounded_weights();
  return rounded == nullptr ? 0 : rounded->bytes_of_pass();
}

void LoadedModels::repack_target() {
  note(target_model_->repack(TileWeights::exact, threads_->size(), draft_model_ ? draft_model_->weight_bytes() : 0,
                             options_.progress));
}

void LoadedModels::stream_target() {
  const std::string file = printable(std::filesystem::path(target_model_->path()).filename().string());
  const StreamingPlan& plan = plan_.streaming;
  const std::uint64_t least = target_model_->least_streamed_memory(threads_->size(), weights_of_copies());
  // What is available without a limit by the user is an estimate, and pages of the mapped file may still be had.
  if (plan.for_weights() < least && options_.memory.empty()) return repack_target();
  if (plan.for_weights() < least) {
    throw ModelError(
        target_model_->path() + ": " + mebibytes(plan.budget) +
        " of memory is too little even if weights are read from the disk: caches, drafts and passes need " +
        mebibytes(plan.others) + ", weights at least " + mebibytes(least) + "; give at least " +
        mebibytes(plan.others + least) +
        " (memory, --memory), or use a shorter context (n_ctx, -c) or a smaller draft");
  }
  if (!tile_cache_) {
    return note(file +
                " is larger than the memory, and there is no folder for repacked weights (tile_cache, --tile-cache): "
                "passes read it through the system's cache, which is slow");
  }
  note(target_model_->stream(*tile_cache_, plan.for_weights(), threads_->size(), weights_of_copies(),
                             options_.progress));
  const StreamedWeights* const weights = target_model_->streamed_weights();
  if (weights == nullptr) return;
  if (!weights->reads_from_disk() && plan_.rounds_target) {
    return note(file +
                " fits into the memory, but its rounded copies, with which it would draft, do not: its drafts take as "
                "long as its own passes. Give it more memory or another draft");
  }
  if (!weights->reads_from_disk()) {
    return note(file +
                " is larger than the memory, and its weights are of types that only the system's cache can hold (F32): "
                "passes may be slow");
  }
  const StreamedBytes& bytes = weights->bytes();
  StreamingForecast forecast = StreamingForecast::of(plan, weights->bytes_per_second());
  forecast.weights = bytes.total;  // the plan estimates these
  forecast.stay = bytes.stay + bytes.slots;
  forecast.read_by_a_pass = bytes.streamed;
  forecast.reads_experts = bytes.slots < bytes.experts;
  forecast.missing_experts = static_cast<double>(bytes.experts - std::min(bytes.experts, bytes.slots));
  if (has_draft(plan_.draft_source))
    forecast.read_without_draft = bytes.streamed - std::min(bytes.streamed, plan.draft + bytes.copies);
  note(file + " is larger than the memory: " + forecast.text());
}

void LoadedModels::set_cancel_check(const std::function<bool()>& cancelled) {
  for (const auto& draft : drafts_) draft->set_cancel_check(cancelled);
  target_->set_cancel_check(cancelled);
}

}  // namespace specdec
