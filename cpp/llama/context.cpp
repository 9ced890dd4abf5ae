#include "llama/context.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/failed_assertions.h"
#include "base/index.h"
#include "base/utf8.h"
#include "ggml-cpu.h"
#include "gguf/problem.h"
#include "graph/op_failure.h"
#include "llama-context.h"
#include "llama.h"
#include "llama/absent_tensors.h"
#include "llama/backend.h"
#include "llama/batch.h"
#include "llama/invariant_kernels.h"
#include "llama/lost_devices.h"
#include "llama/rollback.h"
#include "llama/token_tree.h"
#include "platform/memory.h"

namespace specdec {
namespace {

// Bytes of caches and rows with this many snapshots of recurrent layers per slot.
std::uint64_t needed_memory(const Model& model, const Context::Options& options, const Context::Setup& setup,
                            int num_snapshots) {
  const std::uint64_t states =
      static_cast<std::uint64_t>(options.num_slots) * static_cast<std::uint64_t>(1 + num_snapshots);
  const std::uint64_t rows =
      static_cast<std::uint64_t>(setup.max_made_rows) * static_cast<std::uint64_t>(model.vocabulary().size());
  return setup.cache_bytes + (setup.is_recurrent ? model.cache_shape().state_bytes(states) : 0) + rows * sizeof(float);
}

// Enough to roll back one pass.
int wanted_snapshots(const Context::Options& options) {
  if (options.width > 0) return options.width - 1;  // padding is also taken back
  return std::max(0, std::min(options.num_snapshots, options.batch_size - 2));
}

int tokens_per_pass(const Context::Options& options) {
  if (options.width == 0) return options.batch_size;
  // llama.cpp needs room for one token more than snapshots can take back.
  return std::max(options.width + 1, PassShape::of(options.width, options.batch_size, true).prompt_width);
}

PassPolicy::Limits policy_limits(const Context::Options& options, const Context::Setup& setup) {
  return {options.batch_size, options.context_length, !setup.is_recurrent, setup.allows_padding, setup.pads_trees};
}

// Cells of a slot, including those that padding needs after its tokens.
int cells_per_slot(const Context::Options& options) {
  const PassShape shape;
  return options.context_length + (options.width > 0 ? std::max(options.width, shape.rest_width) : 0);
}

// Snapshots may take at most half of the available memory: without them, rolling back only takes longer.
bool can_afford_snapshots(const Model& model, const Context::Options& options, const Context::Setup& setup) {
  const std::uint64_t available = available_memory();
  return available == 0 || needed_memory(model, options, setup, wanted_snapshots(options)) < available / 2;
}

// llama.cpp zero-fills the cache, so overcommitted memory gets the process killed.
void check_memory(const Model& model, const Context::Options& options, const Context::Setup& setup) {
  if (num_cells(options) > INT32_MAX) {
    throw ModelError(model.path() + ": " + std::to_string(options.num_slots) + " contexts of " +
                     std::to_string(options.context_length) +
                     " tokens are more than 2^31 together. Ask for a shorter context (n_ctx, -c) or fewer sequences");
  }
  const std::uint64_t available = available_memory(), needed = needed_memory(model, options, setup, 0);
  if (available == 0 || needed < available) return;
  const auto slots = static_cast<std::uint64_t>(options.num_slots);
  const auto per_1024 = [&](KvType type) { return mebibytes(model.cache_bytes(1024 * slots, type)); };
  throw ModelError(model.path() + ": not enough memory for a context of " + std::to_string(options.context_length) +
                   " tokens: " + mebibytes(needed) + " needed, " + mebibytes(available) +
                   " available; 1024 tokens take " + per_1024(KvType::f16) + " with kv_type f16 and " +
                   per_1024(KvType::q8_0) +
                   " with q8_0. Ask for a shorter context (n_ctx, -c), or 0 for the longest that fits");
}

// llama.cpp's own message for this names its internals.
void check_kv_type(const Model& model, KvType type) {
  const CacheShape& shape = model.cache_shape();
  const std::uint64_t block = block_size(type);
  for (const CacheShape::Head& head : {shape.full, shape.windowed}) {
    if (head.key % block == 0 && head.value % block == 0) continue;
    throw ModelError(model.path() + ": kv_type " + name(type) + " holds blocks of " + std::to_string(block) +
                     " numbers, the model's heads are " + std::to_string(head.key) + " and " +
                     std::to_string(head.value) + " (keys and values) wide. Use kv_type f16");
  }
}

// Of attention, while this exists.
class Causality {
 public:
  Causality(llama_context* context, bool is_causal) : context_(context) { llama_set_causal_attn(context_, is_causal); }
  ~Causality() { llama_set_causal_attn(context_, true); }
  Causality(const Causality&) = delete;
  Causality& operator=(const Causality&) = delete;

 private:
  llama_context* context_;
};

}  // namespace

// llama.cpp rounds up the cells of a slot.
std::uint64_t num_cells(const Context::Options& options) {
  return static_cast<std::uint64_t>((cells_per_slot(options) + 255) / 256 * 256) *
         static_cast<std::uint64_t>(options.num_slots);
}

void ThreadPool::Free::operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }

ThreadPool::ThreadPool(int num_threads, bool polls) : size_(num_threads) {
  start_backend();
  ggml_threadpool_params params = ggml_threadpool_params_default(num_threads);
  params.poll = polls ? 1 : 0;  // 1: about 2 ms; the default's 100 ms would take a core from other generators
  const std::string problem =
      "cannot start " + std::to_string(num_threads) + " threads: the system has a limit; ask for fewer";
  try {
    const AbortsAsErrors guard;  // threads already started are not freed; they sleep from then on
    pool_.reset(ggml_threadpool_new(&params));
  } catch (const std::runtime_error&) {
    throw Error(problem);
  }
  if (!pool_) throw Error(problem);
}

void Context::Free::operator()(llama_context* context) const { llama_free(context); }

Context::Context(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads, const Options& options)
    : Context(model, std::move(threads), options, whole_model_setup(*model, options)) {}

Context::Setup Context::whole_model_setup(const Model& model, const Options& options) {
  const int most_rows = options.width > 0 ? options.width : options.max_rows;
  Setup setup{model.cache_bytes(num_cells(options), options.kv_type), !model.can_roll_back(), most_rows};
  setup.reads_trees = setup.pads_trees = true;
  return setup;
}

Context::Context(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options,
                 const Setup& setup)
    : model_(std::move(model)),
      // the CPU waits for the device most of the time; polling would take power from it
      threads_(model_->is_all_elsewhere() ? std::make_shared<ThreadPool>(threads->size(), false) : std::move(threads)),
      options_(options),
      vocabulary_size_(model_->vocabulary().size()),
      batch_(std::make_unique<Batch>(std::max(options.batch_size, options.width))),
      texts_(idx(options.num_slots)),
      first_position_(setup.first_position),
      policy_(policy_limits(options, setup)) {
  check_memory(*model_, options_, setup);
  check_kv_type(*model_, options_.kv_type);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(cells_per_slot(options_)) * static_cast<std::uint32_t>(options_.num_slots);
  params.n_batch = params.n_ubatch = static_cast<std::uint32_t>(tokens_per_pass(options_));
  params.n_seq_max = static_cast<std::uint32_t>(options_.num_slots);
  params.n_outputs_max = params.n_outputs_max_per_seq = static_cast<std::uint32_t>(setup.max_made_rows);
  params.n_threads = params.n_threads_batch = threads_->size();
  if (setup.is_recurrent && can_afford_snapshots(*model_, options_, setup)) {
    params.n_rs_seq = static_cast<std::uint32_t>(wanted_snapshots(options_));
  }
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;  // batch-invariant with our hook; attention without it is not
  params.type_k = params.type_v = static_cast<ggml_type>(ggml_type_of(options_.kv_type));
  params.swa_full = true;  // sliding windows keep all cells, for rollbacks
  params.no_perf = true;
  params.abort_callback = [](void* self) { return static_cast<Context*>(self)->ask_cancelled(); };
  params.abort_callback_data = this;
  params.cb_eval = setup.watch;
  params.cb_eval_user_data = setup.watcher;
  if (setup.runs_prediction_layers) params.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
  params.embeddings = setup.makes_embeddings;
  if (setup.makes_embeddings) params.pooling_type = LLAMA_POOLING_TYPE_NONE;
  if (setup.target != nullptr) params.ctx_other = setup.target->context_.get();
  take_backend_errors();
  {
    const AbortsAsErrors guard;
    context_.reset(llama_init_from_model(model_->get(), params));
  }
  model_->check_devices();
  if (!context_) {
    const std::string errors = take_backend_errors(), absent = absent_tensors(model_->get(), errors);
    if (!absent.empty()) fail_file(model_->path(), absent, convert_again);
    model_->check_devices(errors);
    throw ModelError(model_->path() + ": llama.cpp cannot create a context: " + errors + model_->device_remedy());
  }
  if (llama_get_memory(context_.get()) == nullptr && !setup.makes_embeddings) {
    throw ModelError(model_->path() + ": architecture " + model_->architecture() +
                     " has no KV cache: it is not an autoregressive model; only those can generate here");
  }
  if (setup.is_recurrent) recurrent_.emplace(context_.get(), options_.num_slots);
  lacks_snapshots_ = setup.is_recurrent && params.n_rs_seq == 0 && wanted_snapshots(options_) > 0 &&
                     rollback_of(model_->architecture()) == Rollback::snapshots;
  // On devices the order of a sum is another program's.
  reads_trees_ = setup.reads_trees && !recurrent_ && options_.width == 0 && !model_->is_on_device() &&
                 can_hold_trees(llama_get_memory(context_.get()));
  llama_attach_threadpool(context_.get(), threads_->get(), threads_->get());
  if (options_.width > 0) choose_shape(true);
}

// Without snapshots a recurrent state cannot take tokens back, so it must not read padding.
void Context::choose_shape(bool pads) {
  const bool can_pad_rows = !recurrent_ || static_cast<int>(llama_n_rs_seq(context_.get())) >= options_.width - 1;
  PassShape shape = PassShape::of(!pads || can_pad_rows ? options_.width : 1, options_.batch_size, !recurrent_);
  shape.pads = pads;
  policy_.use(shape);
}

bool Context::leave_out_padding() {
  const int width = options_.width, num_tokens = std::max(1, width / 2) * width;
  const bool has_room = num_tokens <= options_.context_length && width <= row_capacity();
  if (!shape() || !has_room || !use_invariant_kernels(*context_, true)) return false;
  choose_shape(false);
  std::vector<int> full, others;  // passes
  for (int narrow = 1; narrow <= std::max(1, width / 2); ++narrow) {
    full.push_back(width);
    for (const int count : {narrow, width - narrow}) {
      if (count > 0) others.push_back(count);
    }
  }
  const std::vector<Token> text = some_text(num_tokens, vocabulary_size_);
  const std::vector<float> expected = rows_of(text, full), found = rows_of(text, others);
  if (std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)) == 0) return true;
  use_invariant_kernels(*context_, false);
  choose_shape(true);
  return false;
}

// Reads tokens into slot 0, which is empty before and afterwards: [tokens][vocabulary]
std::vector<float> Context::rows_of(const std::vector<Token>& tokens, const std::vector<int>& passes) {
  std::vector<float> rows;
  const Token* next = tokens.data();
  for (const int count : passes) {
    decode({{0, next, count, count}});
    rows.insert(rows.end(), logits(0), logits(count));
    next += count;
  }
  start_at(0, 0);
  return rows;
}

Context::~Context() {
  if (finish_on_devices("")) return;  // else freeing it could end the process
  (void)context_.release();
  keep(model_);
  keep(threads_);
}

void Context::decode_rounded(const std::vector<PassInput>& inputs) {
  class Rounded {
   public:
    explicit Rounded(Context& context) : context_(context) { use(true); }
    ~Rounded() { use(false); }

   private:
    void use(bool rounded) {
      context_.reads_rounded_ = rounded;
      if (const RoundedWeights* const weights = context_.model_->rounded_weights()) weights->use(rounded);
    }
    Context& context_;
  };
  const Rounded rounded(*this);
  decode(inputs);
}

void Context::decode(const std::vector<PassInput>& inputs) {
  int num_tokens = 0, num_rows = 0, previous_slot = -1;
  for (const PassInput& input : inputs) {
    if (input.slot <= previous_slot) throw std::logic_error("the slots of a pass must ascend");
    if (input.parents == nullptr && reads_rounded_) throw std::logic_error("rounded weights read nodes only");
    if (input.parents == nullptr || text(input.slot).has_rounded_nodes != reads_rounded_) drop_tree(input.slot);
    const int num_nodes = text(input.slot).num_nodes();
    if (length(input.slot) + num_nodes + input.num_tokens > end(input.slot))
      throw std::logic_error("a pass would write past the context");
    previous_slot = input.slot;
    if (input.picture != nullptr && (inputs.size() > 1 || !reads_pictures()))
      throw std::logic_error("a picture shares no pass, and only some models read it");
    num_tokens += input.picture == nullptr ? input.num_tokens : 0;
    num_rows += input.num_rows;
  }
  if (num_tokens > options_.batch_size) throw std::logic_error("a pass would exceed the batch size");
  if (num_rows > options_.max_rows) throw std::logic_error("a pass would make more rows of logits than planned");
  begin_pass();
  rows_.clear();
  const PlannedPasses& passes = policy_.plan(inputs, slots_for_policy());
  int rows_made = 0;  // by the last pass, which the next one overwrites
  const auto keep_rows = [&] {
    rows_.insert(rows_.end(), logits_, logits_ + idx(rows_made) * idx(vocabulary_size_));
    rows_made = 0;
  };
  for (const PlannedPass& pass : passes) {
    if (rows_made > 0) keep_rows();
    if (passes.size() > 1 && cancelled_ && cancelled_()) {
      undo_pass();
      throw Cancelled("generation was cancelled");
    }
    run(pass);
    for (const PassPart& part : pass.parts) rows_made += part.num_rows;
  }
  if (!rows_.empty()) {
    if (rows_made > 0) keep_rows();
    logits_ = rows_.data();
  }
  if (shape()) pass_size_ = num_tokens;
}

const std::vector<PassPolicy::Slot>& Context::slots_for_policy() {
  policy_slots_.clear();
  for (int slot = 0; slot < options_.num_slots; ++slot)
    policy_slots_.push_back(
        {text(slot).next_cell(), text(slot).cell_of(text(slot).prompt_end), text(slot).num_nodes()});
  return policy_slots_;
}

void Context::run(const PlannedPass& pass) {
  batch_->clear();
  makes_all_rows_ = pass.makes_all_rows;
  const Picture* const picture = pass.parts.front().picture;
  const float* const rows = picture == nullptr ? nullptr : picture->rows->rows();
  for (const PassPart& part : pass.parts) {
    drop_padding(part.slot);
    add(part);
    if (recurrent_) recurrent_->begin_pass(part.slot);
  }
  before_pass();
  if (picture != nullptr) {
    const auto width = idx(llama_model_n_embd_inp(model_->get()));
    const Causality causality(context_.get(), picture->rows->is_causal());
    run_pass(batch_->with_rows(rows + idx(pass.parts.front().first_row) * width, row_positions_), {});
  } else if (batch_->size() > 0) {
    run_pass(batch_->get(), {pass.first_row, pass.end_row});
  }
  for (const PassPart& part : pass.parts) {
    const int slot = part.slot, num_read = part.num_tokens + part.num_padding;
    if (text(slot).num_nodes() > 0) {
      drop_nodes_of_padding(part);
      continue;
    }
    text(slot).length -= part.num_padding;
    if (recurrent_) {
      recurrent_->end_pass(slot, picture == nullptr ? num_read : 1);  // no row of a picture is taken back
      text(slot).padding = part.num_padding;
    } else if (part.num_padding > 0) {
      llama_memory_seq_rm(llama_get_memory(context_.get()), slot, next_position(slot).value, -1);
    }
    if (shape()) count_piece(part);
  }
  after_pass();
}

void Context::count_piece(const PassPart& part) {
  SlotText& text = this->text(part.slot);
  const int begin = text.length - part.num_tokens;
  if (part.picture == nullptr) {
    if (begin == text.whole_pieces && part.num_tokens == shape()->prompt_width) text.whole_pieces = text.length;
    return;
  }
  // All prompts that have the picture read the tokens before it alike, those after the last whole piece too.
  const int picture = begin - part.first_row, tokens = text.begin_of_tokens(picture);
  const bool is_read_as_prompt = picture < text.prompt_end;
  const bool is_read = part.first_row + part.num_tokens == part.picture->num_rows;
  if (is_read && is_read_as_prompt && text.whole_pieces == tokens + shape()->reusable(picture - tokens))
    text.whole_pieces = text.length;
}

// llama.cpp can go back only once after a pass, so padding is dropped when the final length is known.
void Context::drop_padding(int slot) const {
  int& padding = texts_[idx(slot)].padding;
  if (padding == 0) return;
  const Position next = next_position(slot);
  if (recurrent_->truncate(slot, next + padding, next) != next) {
    throw std::logic_error("the padding of a pass cannot be taken back");
  }
  padding = 0;
}

// Cells behind the last place.
void Context::drop_tree(int slot) {
  if (text(slot).num_nodes() == 0) return;
  llama_memory_t memory = llama_get_memory(context_.get());
  llama_memory_seq_rm(memory, slot, next_position(slot).value, -1);
  text(slot).clear_nodes();
  set_tree(memory, slot, next_position(slot), {});
}

void Context::keep_path(int slot, const std::vector<int>& nodes) {
  if (text(slot).num_nodes() == 0) return;
  keep_nodes(llama_get_memory(context_.get()), slot, nodes);
  text(slot).clear_nodes();
  text(slot).length += static_cast<int>(nodes.size());
}

int Context::reusable(int slot, int length) const {
  if (!shape()) return length;
  const SlotText& text = this->text(slot);
  const int end = text.whole_pictures(std::min(length, text.whole_pieces)), begin = text.begin_of_tokens(end);
  return begin + shape()->reusable(end - begin);
}

void Context::begin_pass() {
  model_->check_devices();  // before: a lost server never returns; after: its reads were zeros
  for (SlotText& text : texts_) text.length_before = text.length;
}

void Context::run_pass(const llama_batch& batch, RowRange wanted) {
  pass_size_ = batch.n_tokens;
  try {
    try_pass(batch, wanted);
  } catch (...) {
    undo_pass();
    throw;
  }
}

// Calls a function of llama.cpp that uses the devices. Throws ModelError for a failed assertion, and for an error of a
// driver.
template <class Call>
auto Context::guarded(Call call) const -> decltype(call()) {
  try {
    const AbortsAsErrors guard;
    return call();
  } catch (const std::runtime_error& failure) {
    const std::string what = printable(failure.what());
    if (!model_->is_on_device()) throw ModelError(model_->path() + ": llama.cpp cannot run this model: " + what);
    if (!finish_on_devices(what)) model_->check_devices();
    throw ModelError(model_->path() + ": " + model_->device_names() + " failed: " + what + model_->device_remedy());
  }
}

bool Context::finish_on_devices(const std::string& error) const {
  return !model_->is_on_device() || finish(model_->devices(), error, [&] { llama_synchronize(context_.get()); });
}

void Context::try_pass(const llama_batch& batch, RowRange wanted) {
  take_backend_errors();
  take_failure();
  logits_ = nullptr;
  context_->copied_logits_begin = wanted.begin;
  context_->copied_logits_end = wanted.end;
  const int status = guarded([&] {
    const int result = llama_decode(context_.get(), batch);
    if (result == 0 && wanted.begin < wanted.end) {
      logits_ = llama_get_logits(context_.get()) + idx(wanted.begin) * idx(vocabulary_size_);
    }
    llama_synchronize(context_.get());  // errors that a device reports at the end of a pass belong to that pass
    return result;
  });
  check_pass(status, pass_size_);
}

void Context::check_pass(int status, int num_tokens) {
  model_->check_devices();
  model_->check_stream();
  if (status == 2) throw Cancelled("generation was cancelled");
  const std::string failure = take_failure();
  if (status == 0 && failure.empty()) return;
  if (!failure.empty()) throw ModelError(model_->path() + ": " + failure);
  throw ModelError(model_->path() + ": a pass of " + std::to_string(num_tokens) + " tokens failed (status " +
                   std::to_string(status) + "): " + take_backend_errors());
}

void Context::encode(const llama_batch& rows) {
  take_backend_errors();
  take_failure();
  check_pass(guarded([&] { return llama_encode(context_.get(), rows); }), rows.n_tokens);
}

// Returns the slots to their lengths before the pass, or less.
void Context::undo_pass() {
  for (int slot = 0; slot < options_.num_slots; ++slot) {
    SlotText& text = this->text(slot);
    const int before = text.length_before;
    drop_tree(slot);
    if (text.length == before) continue;
    if (!recurrent_) {
      truncate(slot, before);
    } else if (const Position kept = recurrent_->recover(slot, text.position_of(before)); kept > Position()) {
      text.shorten(text.place_of(kept));
      text.padding = 0;
    } else {
      start_at(slot, 0);
    }
  }
}

bool Context::shares_position(int slot, int place) const {
  const SlotText::Picture* const picture = text(slot).picture_at(place);
  return picture != nullptr && picture->num_positions < picture->num_places;
}

void Context::skip_picture(int slot, const Context* like) {
  text(slot).skip_place(like == nullptr ? nullptr : like->text(slot).picture_at(length(slot)));
}

// Without M-RoPE a row has one position, else four.
void Context::add_rows(const PassPart& part) {
  const Picture& picture = *part.picture;
  SlotText& text = this->text(part.slot);
  const Position begin = text.position_of(text.length - part.first_row);
  if (part.first_row == 0) text.pictures.push_back({text.length, picture.num_rows, picture.num_positions, true});
  const llama_rope_type rope = llama_model_rope_type(model_->get());
  const std::size_t num_axes = rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE ? 4 : 1;
  const auto count = idx(part.num_tokens);
  row_positions_.assign(num_axes * count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::array<int, 4> position = picture.rows->position(part.first_row + static_cast<int>(i), begin.value);
    for (std::size_t axis = 0; axis < num_axes; ++axis) row_positions_[axis * count + i] = position[axis];
    batch_->add(0, Position(position[0]), part.slot, false);
  }
  text.length += part.num_tokens;
}

int Context::num_new_nodes(const PassPart& part) const {
  return part.parents == nullptr ? 0 : static_cast<int>(part.parents->size()) - text(part.slot).num_nodes();
}

void Context::add(const PassPart& part) {
  if (part.picture != nullptr) return add_rows(part);
  const int num_nodes = num_new_nodes(part);
  for (int i = 0; i < part.num_tokens - num_nodes; ++i) {
    if (part.tokens[i] == in_picture) skip_picture(part.slot, nullptr);
    else add(part.tokens[i], part.slot, next_position(part.slot), i >= part.num_tokens - part.num_rows);
  }
  if (num_nodes > 0) add_nodes(part, num_nodes);
  add_padding(part);
}

// Behind a tree, at the positions after those of its nodes.
void Context::add_padding(const PassPart& part) {
  SlotText& text = this->text(part.slot);
  if (text.num_nodes() == 0) {
    for (int i = 0; i < part.num_padding; ++i) add(0, part.slot, next_position(part.slot), false);
    return;
  }
  const Position after = next_position(part.slot) + text.num_levels();
  for (int i = 0; i < part.num_padding; ++i) {
    batch_->add(0, after + i, part.slot, makes_all_rows_);
    text.visible.push_back(std::uint64_t{1} << text.visible.size());
  }
  set_tree(llama_get_memory(context_.get()), part.slot, next_position(part.slot), text.visible);
}

void Context::drop_nodes_of_padding(const PassPart& part) {
  if (part.num_padding == 0) return;
  SlotText& text = this->text(part.slot);
  text.visible.resize(text.visible.size() - idx(part.num_padding));
  const Position first = next_position(part.slot);
  llama_memory_t memory = llama_get_memory(context_.get());
  llama_memory_seq_rm(memory, part.slot, (first + text.num_levels()).value, -1);
  set_tree(memory, part.slot, first, text.visible);
}

void Context::add_nodes(const PassPart& part, int num_nodes) {
  std::vector<std::uint64_t>& visible = text(part.slot).visible;
  text(part.slot).has_rounded_nodes = reads_rounded_;
  const Position first = next_position(part.slot);
  for (int i = part.num_tokens - num_nodes; i < part.num_tokens; ++i) {
    const std::size_t node = visible.size();
    const int parent = (*part.parents)[node];
    const std::uint64_t above = parent < 0 ? 0 : visible[idx(parent)];
    visible.push_back(above | std::uint64_t{1} << node);
    batch_->add(known(part.tokens[i]), first + SlotText::num_visible(above), part.slot,
                i >= part.num_tokens - part.num_rows);
  }
  set_tree(llama_get_memory(context_.get()), part.slot, first, visible);
}

// A draft may have fewer ids than its target; it reads id 0 instead of an id that it lacks, and a head with a picture's
// rows.
Token Context::known(Token token) const { return 0 <= token && token < vocabulary_size_ ? token : 0; }

void Context::add(Token token, int slot, Position position, bool makes_row) {
  batch_->add(known(token), position, slot, makes_row || makes_all_rows_);
  ++text(slot).length;
}

const float* Context::logits(int row) const { return logits_ + idx(row) * idx(vocabulary_size_); }

void Context::truncate(int slot, int new_length) {
  drop_tree(slot);
  SlotText& text = this->text(slot);
  if (new_length >= text.length) return;
  new_length = text.whole_pictures(new_length);
  if (new_length < text.whole_pieces) text.whole_pieces = new_length = reusable(slot, new_length);
  if (new_length <= first(slot)) return start_at(slot, 0);
  llama_memory_t memory = llama_get_memory(context_.get());
  const Position end = text.position_of(new_length), read = text.next_position() + text.padding;
  Position kept = end;
  text.padding = 0;
  // A context without a memory is an encoder, which reads a text in one pass.
  if (recurrent_) kept = recurrent_->truncate(slot, read, kept);
  else if (memory == nullptr || !llama_memory_seq_rm(memory, slot, kept.value, -1)) kept = {};
  if (kept > Position()) text.shorten(kept == end ? new_length : text.place_of(kept));
  else start_at(slot, 0);  // a memory that cannot keep a prefix is cleared
}

void Context::start_at(int slot, int place) {
  if (llama_memory_t memory = llama_get_memory(context_.get())) llama_memory_seq_rm(memory, slot, -1, -1);
  if (recurrent_) recurrent_->forget(slot);
  text(slot).start_at(place);
}

// The other cells move to the beginning, because the block of attention's sums that a token belongs to must depend only
// on its position. They keep their positions, which are relative in nearly all models, so nothing is rounded again.
bool Context::drop_before(int slot, int place) {
  if (place <= first(slot)) return true;
  if (place >= length(slot)) {
    start_at(slot, length(slot));
    return true;
  }
  if (is_recurrent_only(model_->architecture())) {  // the state does not grow
    text(slot).first = place;
    return true;
  }
  const Position begin = text(slot).position_of(place), longest = begin + options_.context_length;
  if (recurrent_ || longest.value > model_->trained_context()) return false;
  llama_memory_t memory = llama_get_memory(context_.get());
  const Position last = next_position(slot) - 1;
  CellChange change(*this, slot);
  if (!llama_memory_seq_rm(memory, slot, 0, begin.value)) return false;
  const std::string cells = this->cells(slot);
  llama_memory_seq_rm(memory, slot, -1, -1);
  if (!put_state(slot, cells) || llama_memory_seq_pos_max(memory, slot) != last.value) return false;
  text(slot).first = place;
  change.commit();
  return true;
}

Context::CellChange::~CellChange() {
  if (is_committed_) return;
  try {
    context_.start_at(slot_, 0);
  } catch (...) {  // llama.cpp's call does not throw; a failed assertion would end the process anyway
  }
}

void Context::checkpoint(int slot, int pass_tokens) {
  if (!recurrent_) return;
  const Cell next = text(slot).next_cell();
  drop_padding(slot);
  if (shape() && shape()->pieces(next, next + pass_tokens).size() > 1) pass_tokens = 0;
  guarded([&] { recurrent_->checkpoint(slot, next_position(slot), pass_tokens); });
}

void Context::copy(int from, int to) {
  if (from == to) return;
  start_at(to, 0);
  if (text(from).next_cell() == Cell()) return;
  drop_padding(from);
  drop_tree(from);
  CellChange change(*this, to);
  if (recurrent_) {  // llama.cpp shares a recurrent state, but not which of its snapshots is the current one
    if (!put_state(to, cells(from))) return;
  } else {  // at once: llama.cpp would copy cells only before the next pass, and a state may be read or written earlier
    llama_memory_seq_cp(llama_get_memory(context_.get()), from, to, -1, -1);
    guarded([&] { return context_->memory_update(false); });
  }
  text(to) = text(from);
  change.commit();
}

// llama.cpp's bytes, then what it does not know.
std::string Context::state(int slot) const {
  std::string bytes = cells(slot);
  const auto append = [&bytes](int number) { bytes.append(reinterpret_cast<const char*>(&number), sizeof number); };
  for (const SlotText::Picture& picture : text(slot).pictures) {
    for (const int number : {picture.place, picture.num_places, picture.num_positions, picture.has_cells ? 1 : 0})
      append(number);
  }
  append(static_cast<int>(text(slot).pictures.size()));
  append(text(slot).whole_pieces);
  return bytes;
}

std::string Context::cells(int slot) const {
  drop_padding(slot);
  std::string bytes(llama_state_seq_get_size(context_.get(), slot), '\0');
  auto* const data = reinterpret_cast<std::uint8_t*>(bytes.data());
  bytes.resize(guarded([&] { return llama_state_seq_get_data(context_.get(), data, bytes.size(), slot); }));
  return bytes;
}

// Fills an empty slot. Returns false if the bytes do not fit; the slot's contents are then undefined.
bool Context::put_state(int slot, const std::string& state) {
  bool is_put = false;
  try {
    const AbortsAsErrors guard;
    const auto* const data = reinterpret_cast<const std::uint8_t*>(state.data());
    is_put = llama_state_seq_set_data(context_.get(), data, state.size(), slot) == state.size();
  } catch (const std::exception&) {  // a failed assertion
  }
  take_backend_errors();
  return is_put;
}

bool Context::restore(int slot, const std::string& state, int length) {
  std::size_t size = state.size();
  const auto take = [&](int& number) {
    if (size < sizeof number) return false;
    size -= sizeof number;
    std::memcpy(&number, state.data() + size, sizeof number);
    return true;
  };
  int whole = 0, count = 0;
  if (!take(whole) || !take(count)) return false;
  std::vector<SlotText::Picture> pictures;
  for (int i = 0; i < count; ++i) {
    int place = 0, num_places = 0, num_positions = 0, has_cells = 0;
    if (!take(has_cells) || !take(num_positions) || !take(num_places) || !take(place)) return false;
    if (place < 0 || num_places < 0 || num_positions < 0) return false;
    pictures.insert(pictures.begin(), {place, num_places, num_positions, has_cells != 0});
  }
  if (!restore_cache(slot, state.substr(0, size), length, pictures)) return false;
  if (shape()) text(slot).whole_pieces = std::clamp(whole, 0, length);
  return true;
}

bool Context::restore_cache(int slot, const std::string& state, int length,
                            const std::vector<SlotText::Picture>& pictures) {
  start_at(slot, 0);
  const Position before = first_position_;
  if (length <= before.value) {
    text(slot).length = length;
    return true;
  }
  llama_memory_t memory = llama_get_memory(context_.get());
  CellChange change(*this, slot);
  SlotText restored = text(slot);
  restored.length = length;
  restored.pictures = pictures;
  bool is_restored = put_state(slot, state);
  const Position first(llama_memory_seq_pos_min(memory, slot)), last(llama_memory_seq_pos_max(memory, slot));
  const Position next = restored.next_position();  // if the text begins at 0
  // The last row of a picture may have an earlier position than the picture's last.
  const SlotText::Picture* const picture = restored.picture_at(length - 1);
  const Position least_last = picture == nullptr ? next - 1 : restored.position_of(picture->place) - 1;
  if (options_.holds_window) is_restored = is_restored && Position() <= first && last < next;
  else is_restored = is_restored && (recurrent_ || first == before) && least_last <= last && last < next;
  if (!is_restored) return false;
  change.commit();
  if (options_.holds_window) {
    restored.origin = next - 1 - last;
    restored.first = restored.place_of(recurrent_ ? Position() : first);
  }
  text(slot) = restored;
  return true;
}

// Called between the operations of a pass. The caller's check may take microseconds, so short passes call it only now
// and then; in passes over a long prompt, one operation can take most of a second.
bool Context::ask_cancelled() {
  constexpr int short_pass = 64;
  const bool is_due = ++nodes_computed_ % 16 == 0 || pass_size_ > short_pass;
  return is_due && cancelled_ && cancelled_();
}

}  // namespace specdec
