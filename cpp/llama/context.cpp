#include "llama/context.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "ggml-cpu.h"
#include "gguf/problem.h"
#include "graph/op_failure.h"
#include "llama-context.h"
#include "llama-ext.h"
#include "llama.h"
#include "llama/absent_tensors.h"
#include "llama/backend.h"
#include "llama/rollback.h"
#include "platform/memory.h"

namespace specdec {
namespace {

// llama.cpp rounds up.
int cells_per_slot(const Context::Options& options) { return (options.context_length + 255) / 256 * 256; }

// Bytes of caches and rows, with this many snapshots of recurrent layers per slot.
std::uint64_t needed_memory(const Model& model, const Context::Options& options, int num_snapshots) {
  const auto slots = static_cast<std::uint64_t>(options.num_slots);
  const std::uint64_t states = slots * static_cast<std::uint64_t>(1 + num_snapshots);
  const std::uint64_t cells = static_cast<std::uint64_t>(cells_per_slot(options)) * slots;
  const bool is_eagle3 = options.is_head && model.head_kind() == HeadKind::eagle3;
  const std::uint64_t rows = static_cast<std::uint64_t>(is_eagle3 ? options.batch_size : options.max_rows) *
                             static_cast<std::uint64_t>(model.vocabulary().size()) * sizeof(float);
  if (options.is_head) return model.head_cache_bytes(cells, options.kv_type) + rows;
  return model.cache_bytes(cells, options.kv_type) + model.cache_shape().state_bytes(states) + rows;
}

// Those of one pass.
int wanted_snapshots(const Context::Options& options) { return std::max(0, std::min(options.num_snapshots, options.batch_size - 2)); }

// Half of what is available at most: without snapshots a rollback only takes longer.
bool can_afford_snapshots(const Model& model, const Context::Options& options) {
  const std::uint64_t available = available_memory();
  return available == 0 || needed_memory(model, options, wanted_snapshots(options)) < available / 2;
}

int hidden_size_of(const Model& model, const Context::Options& options) {
  if (!options.hidden_layers.empty()) return static_cast<int>(options.hidden_layers.size()) * llama_model_n_embd(model.get());
  return options.is_head || options.gives_hidden_rows ? llama_model_n_embd_out(model.get()) : 0;
}

// llama.cpp zero-fills the cache, so overcommitted memory gets the process killed.
void check_memory(const Model& model, const Context::Options& options) {
  const std::uint64_t cells = static_cast<std::uint64_t>(cells_per_slot(options)) * static_cast<std::uint64_t>(options.num_slots);
  if (cells > INT32_MAX) {
    throw ModelError(model.path() + ": " + std::to_string(options.num_slots) + " contexts of " + std::to_string(options.context_length) +
                     " tokens are more than 2^31 together. Ask for a shorter context (n_ctx, -c) or fewer sequences");
  }
  const std::uint64_t available = available_memory(), needed = needed_memory(model, options, 0);
  if (available == 0 || needed < available) return;
  throw ModelError(model.path() + ": not enough memory for a context of " + std::to_string(options.context_length) + " tokens: " +
                   mebibytes(needed) + " needed, " + mebibytes(available) + " available. Ask for a shorter context (n_ctx, -c)");
}

// llama.cpp's own message for this names its internals.
void check_kv_type(const Model& model, KvType type) {
  const CacheShape& shape = model.cache_shape();
  const std::uint64_t block = block_size(type);
  for (const CacheShape::Head& head : {shape.full, shape.windowed}) {
    if (head.key % block == 0 && head.value % block == 0) continue;
    throw ModelError(model.path() + ": kv_type q8_0 holds blocks of " + std::to_string(block) + " numbers, the model's heads are " +
                     std::to_string(head.key) + " and " + std::to_string(head.value) + " (keys and values) wide. Use kv_type f16");
  }
}

// The status of a pass.
template <class Pass>
int run_guarded(const Model& model, const Pass& pass) {
  try {
    const AbortsAsErrors guard;
    return pass();
  } catch (const std::runtime_error& failed_assertion) {
    throw ModelError(model.path() + ": llama.cpp cannot run this model: " + printable(failed_assertion.what()));
  }
}

}  // namespace

// The arrays of a llama_batch, refilled for every pass.
class Context::Batch {
 public:
  // hidden_size: of the rows that are read with the tokens, or 0.
  Batch(int capacity, int hidden_size) : hidden_size_(static_cast<std::size_t>(hidden_size)), batch_(llama_batch_init(capacity, 0, 1)) {
    hidden_.resize(hidden_size_ * static_cast<std::size_t>(capacity));
    if (hidden_size > 0) batch_.embd = hidden_.data();
  }
  ~Batch() {
    batch_.embd = nullptr;
    llama_batch_free(batch_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void clear() { batch_.n_tokens = 0; }
  // hidden: null for zeros, or if none is read.
  void add(Token token, int position, int slot, bool wants_row, const float* hidden) {
    const int i = batch_.n_tokens++;
    const auto row = hidden_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * hidden_size_);
    if (hidden == nullptr) std::fill_n(row, hidden_size_, 0.0f);
    else std::copy_n(hidden, hidden_size_, row);
    batch_.token[i] = token;
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = slot;
    batch_.logits[i] = wants_row ? 1 : 0;
  }
  const llama_batch& get() const { return batch_; }

 private:
  std::size_t hidden_size_;
  std::vector<float> hidden_;  // [capacity][hidden_size_]
  llama_batch batch_;
};

void ThreadPool::Free::operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }

ThreadPool::ThreadPool(int num_threads) : size_(num_threads) {
  start_backend();
  ggml_threadpool_params params = ggml_threadpool_params_default(num_threads);
  params.poll = 1;  // poll for about 2 ms, then sleep; the default's 100 ms would take a core from other generators
  const std::string problem = "cannot start " + std::to_string(num_threads) + " threads: the system has a limit; ask for fewer";
  try {
    const AbortsAsErrors guard;  // of those that it has started, which sleep from then on, nothing is freed
    pool_.reset(ggml_threadpool_new(&params));
  } catch (const std::runtime_error&) {
    throw Error(problem);
  }
  if (!pool_) throw Error(problem);
}

void Context::Free::operator()(llama_context* context) const { llama_free(context); }

Context::Context(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options)
    : model_(std::move(model)),
      threads_(std::move(threads)),
      options_(options),
      vocabulary_size_(model_->vocabulary().size()),
      hidden_size_(hidden_size_of(*model_, options)),
      target_row_size_(is_eagle3() ? options.target->hidden_size() : hidden_size_),
      batch_(std::make_unique<Batch>(options.batch_size, options.is_head ? hidden_size_ : 0)),
      lengths_(static_cast<std::size_t>(options.num_slots), 0),
      wants_last_rows_(options.is_head && model_->head_rows_need_logits()) {
  check_memory(*model_, options_);
  check_kv_type(*model_, options_.kv_type);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(options_.context_length) * static_cast<std::uint32_t>(options_.num_slots);
  params.n_batch = params.n_ubatch = static_cast<std::uint32_t>(options_.batch_size);
  params.n_seq_max = static_cast<std::uint32_t>(options_.num_slots);
  params.n_outputs_max = params.n_outputs_max_per_seq = static_cast<std::uint32_t>(options_.max_rows);
  params.n_threads = params.n_threads_batch = threads_->size();
  const bool is_recurrent = !model_->can_roll_back() && !options_.is_head;
  if (is_recurrent && can_afford_snapshots(*model_, options_)) params.n_rs_seq = static_cast<std::uint32_t>(wanted_snapshots(options_));
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;  // batch-invariant with our hook; without it the attention is not
  params.type_k = params.type_v = static_cast<ggml_type>(ggml_type_of(options_.kv_type));
  params.swa_full = true;  // sliding windows keep all cells, for rollbacks
  params.no_perf = true;
  params.abort_callback = [](void* self) { return static_cast<Context*>(self)->ask_cancelled(); };
  params.abort_callback_data = this;
  if (options_.is_head && !is_eagle3()) params.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
  // For what the file lacks: embeddings, output matrix, an assistant's keys and values.
  if (is_eagle3() || is_assistant()) params.ctx_other = options_.target->context_.get();
  if (is_eagle3()) {
    params.n_outputs_max = params.n_outputs_max_per_seq = params.n_batch;
  }
  take_backend_errors();
  {
    const AbortsAsErrors guard;
    context_.reset(llama_init_from_model(model_->get(), params));
  }
  model_->check_rpc_servers();
  if (!context_) {
    const std::string errors = take_backend_errors(), absent = absent_tensors(model_->get(), errors);
    if (!absent.empty()) fail_file(model_->path(), absent, convert_again);
    throw ModelError(model_->path() + ": llama.cpp cannot create a context: " + errors);
  }
  if (llama_get_memory(context_.get()) == nullptr) {
    throw ModelError(model_->path() + ": architecture " + model_->architecture() +
                     " has no KV cache: it is not an autoregressive model; only "
                     "those can generate here");
  }
  if (is_recurrent) recurrent_.emplace(context_.get(), options_.num_slots);
  lacks_snapshots_ =
      is_recurrent && params.n_rs_seq == 0 && wanted_snapshots(options_) > 0 && rollback_of(model_->architecture()) == Rollback::snapshots;
  give_hidden_rows();
  llama_attach_threadpool(context_.get(), threads_->get(), threads_->get());
}

Context::~Context() = default;

void Context::decode(const std::vector<PassInput>& inputs) {
  int num_tokens = 0, num_rows = 0, width = 0, previous_slot = -1;
  for (const PassInput& input : inputs) {
    if (input.slot <= previous_slot) throw std::logic_error("the slots of a pass must ascend");
    if (length(input.slot) + input.num_tokens > options_.context_length) throw std::logic_error("a pass would write past the context");
    previous_slot = input.slot;
    num_tokens += input.num_tokens;
    num_rows += input.num_rows;
    width = std::max(width, input.num_tokens);
  }
  if (num_tokens > options_.batch_size) throw std::logic_error("a pass would exceed the batch size");
  if (num_rows > options_.max_rows) throw std::logic_error("a pass would make more rows of logits than planned");

  model_->check_rpc_servers();  // before: a lost server never returns; after: its reads were zeros
  batch_->clear();
  places_.clear();
  rows_.clear();
  num_made_rows_ = 0;
  wants_all_rows_ = is_eagle3() && num_rows > 0;
  lengths_before_ = lengths_;
  const bool is_padded = inputs.size() > 1 && worth_padding(inputs, width);
  if (is_padded) {
    auto input = inputs.begin();
    for (int slot = inputs.front().slot; slot <= inputs.back().slot; ++slot) {
      const bool has_input = input->slot == slot;
      if (has_input) add_input(*input);
      add_padding(slot, width - (has_input ? input->num_tokens : 0));
      if (has_input) ++input;
    }
  } else {
    for (const PassInput& input : inputs) add_input(input);
  }
  pass_size_ = batch_->get().n_tokens;

  if (recurrent_) {
    for (const PassInput& input : inputs) recurrent_->begin_pass(input.slot);
  }
  try {
    run_pass(num_rows > 0);
  } catch (...) {
    undo_pass();
    throw;
  }
  if (recurrent_) {
    for (const PassInput& input : inputs) recurrent_->end_pass(input.slot, input.num_tokens);
  }
  if (!options_.hidden_layers.empty()) make_hidden_rows();
  if (is_padded) {
    for (const PassInput& input : inputs) lengths_before_[static_cast<std::size_t>(input.slot)] += input.num_tokens;
    undo_pass();
  }
}

void Context::run_pass(bool wants_logits) {
  take_backend_errors();
  take_failure();
  const int status = run_guarded(*model_, [&] { return llama_decode(context_.get(), batch_->get()); });
  logits_ = status == 0 && wants_logits ? llama_get_logits(context_.get()) : nullptr;  // waits for the end of the pass
  check_pass(status, pass_size_);
}

void Context::check_pass(int status, int num_tokens) {
  model_->check_rpc_servers();
  if (status == 2) throw Cancelled("generation was cancelled");
  const std::string failure = take_failure();
  if (status == 0 && failure.empty()) return;
  if (!failure.empty()) throw ModelError(model_->path() + ": " + failure);
  throw ModelError(model_->path() + ": a pass of " + std::to_string(num_tokens) + " tokens failed (status " + std::to_string(status) +
                   "): " + take_backend_errors());
}

// Back to lengths_before_, or less.
void Context::undo_pass() {
  for (int slot = 0; slot < options_.num_slots; ++slot) {
    int& cached = lengths_[static_cast<std::size_t>(slot)];
    const int before = lengths_before_[static_cast<std::size_t>(slot)];
    if (cached == before) continue;
    if (recurrent_) cached = recurrent_->recover(slot, before);
    else truncate(slot, before);
  }
}

// EAGLE-3 heads are trained to read the tokens after the first, each with the target's row of the one before it. So the first is in the
// cache only while it is the last. An assistant keeps nothing of what it reads, so only the last token counts; all of its drafts have the
// position of the token that the target reads next.
void Context::add_input(const PassInput& input) {
  int& cached = lengths_[static_cast<std::size_t>(input.slot)];
  if (is_eagle3() && cached == 1) llama_memory_seq_rm(llama_get_memory(context_.get()), input.slot, -1, -1);
  for (int i = 0; i < input.num_tokens; ++i) {
    const bool is_last = i == input.num_tokens - 1;
    if (!is_last && (is_assistant() || (is_eagle3() && cached == 0))) {
      places_.push_back(-1);
      ++cached;
      continue;
    }
    // A draft may have fewer ids than its target: it reads id 0 instead of an id that it lacks.
    const Token token = input.tokens[i] < vocabulary_size_ ? input.tokens[i] : 0;
    const float* hidden = input.hidden == nullptr ? nullptr : input.hidden + static_cast<std::ptrdiff_t>(i) * hidden_size_;
    if (hidden_size_ > 0) places_.push_back(batch_->get().n_tokens);
    const bool wants_row = i >= input.num_tokens - input.num_rows;
    const int position = is_assistant() ? options_.target->length(input.slot) : cached;
    if (wants_row) rows_.push_back(num_made_rows_);
    add(token, input.slot, position, wants_row || wants_all_rows_ || (wants_last_rows_ && is_last), hidden);
  }
}

// Padding tokens, removed from the cache after the pass.
void Context::add_padding(int slot, int count) {
  for (int i = 0; i < count; ++i) add(0, slot, length(slot), wants_all_rows_, nullptr);
}

void Context::add(Token token, int slot, int position, bool makes_row, const float* hidden) {
  batch_->add(token, position, slot, makes_row, hidden);
  ++lengths_[static_cast<std::size_t>(slot)];
  if (makes_row) ++num_made_rows_;
}

// llama.cpp splits a ragged batch: one pass over the weights takes an equal number of tokens from each of several adjacent slots,
// and the rest goes into further passes. Padding makes it one pass with more tokens. The choice assumes that a pass costs reading
// the weights, about as much as computing 8 tokens, plus its tokens.
bool Context::worth_padding(const std::vector<PassInput>& inputs, int width) {
  constexpr int cost_of_weights = 8;
  const int first = inputs.front().slot, last = inputs.back().slot, padded = (last - first + 1) * width;
  if (recurrent_ || is_assistant() || padded > options_.batch_size) return false;
  for (int slot = first; slot <= last; ++slot) {
    if (length(slot) + width > options_.context_length) return false;
  }
  int passes = 0, num_tokens = 0;
  left_.clear();
  for (const PassInput& input : inputs) {
    num_tokens += input.num_tokens;
    left_.push_back(input.num_tokens);
  }
  const auto first_left = [this] {
    return static_cast<std::size_t>(std::find_if(left_.begin(), left_.end(), [](int n) { return n > 0; }) - left_.begin());
  };
  for (std::size_t begin = 0, end = 0; begin < left_.size(); begin = first_left()) {
    int least = left_[begin];
    for (end = begin + 1; end < left_.size() && left_[end] > 0 && inputs[end].slot == inputs[end - 1].slot + 1; ++end) {
      least = std::min(least, left_[end]);
    }
    for (std::size_t i = begin; i < end; ++i) left_[i] -= least;
    ++passes;
  }
  return cost_of_weights + padded <= passes * cost_of_weights + num_tokens;
}

const float* Context::logits(int row) const {
  const int made = rows_[static_cast<std::size_t>(row)];
  return logits_ + static_cast<std::size_t>(made) * static_cast<std::size_t>(vocabulary_size_);
}

// Throws ModelError if llama.cpp's graph of the architecture does not give the rows.
void Context::give_hidden_rows() {
  if (hidden_size_ == 0) return;
  const int last = llama_model_n_layer(model_->get());
  const std::vector<int>& layers = options_.hidden_layers;
  const bool wants_output = layers.empty() || std::find(layers.begin(), layers.end(), last) != layers.end();
  if (wants_output) llama_set_embeddings_nextn(context_.get(), true, wants_last_rows_);  // of every token, or of those with logits
  for (const int layer : layers) {
    if (layer != last) llama_set_embeddings_layer_inp(context_.get(), static_cast<std::uint32_t>(layer), true);
  }
  if (layers.empty()) return;
  try {
    const AbortsAsErrors guard;
    const auto slots = static_cast<std::uint32_t>(options_.num_slots);
    llama_graph_reserve(context_.get(), slots, slots, slots);
  } catch (const std::runtime_error&) {
    throw ModelError(model_->path() + ": llama.cpp does not give the rows of the layers of architecture " + model_->architecture() +
                     " that the drafting head reads. Use another draft, or \"suffix\"");
  }
}

// Those of several layers, side by side.
void Context::make_hidden_rows() {
  const int last = llama_model_n_layer(model_->get());
  const auto width = static_cast<std::size_t>(llama_model_n_embd(model_->get()));
  hidden_rows_.resize(places_.size() * static_cast<std::size_t>(hidden_size_));
  float* to = hidden_rows_.data();
  for (const int place : places_) {
    for (const int layer : options_.hidden_layers) {
      const float* from = layer == last ? llama_get_embeddings_nextn_ith(context_.get(), place)
                                        : llama_get_embeddings_layer_inp(context_.get(), static_cast<std::uint32_t>(layer)) +
                                              static_cast<std::size_t>(place) * width;
      to = std::copy_n(from, width, to);
    }
  }
}

const float* Context::fuse(const float* target_rows, int count) {
  if (!is_eagle3()) return target_rows;
  wants_fused_.assign(static_cast<std::size_t>(count), 1);
  llama_batch batch = {};
  batch.n_tokens = count;
  batch.logits = wants_fused_.data();
  batch.embd = const_cast<float*>(target_rows);
  take_backend_errors();
  take_failure();
  check_pass(run_guarded(*model_, [&] { return llama_encode(context_.get(), batch); }), count);
  return llama_get_embeddings_nextn(context_.get());
}

const float* Context::hidden_row(int token) const {
  if (!options_.hidden_layers.empty()) return hidden_rows_.data() + static_cast<std::ptrdiff_t>(token) * hidden_size_;
  return llama_get_embeddings_nextn_ith(context_.get(), places_[static_cast<std::size_t>(token)]);
}

void Context::truncate(int slot, int new_length) {
  int& cached = lengths_[static_cast<std::size_t>(slot)];
  if (new_length >= cached) return;
  if (recurrent_) {
    cached = recurrent_->truncate(slot, cached, new_length);
    return;
  }
  if (!llama_memory_seq_rm(llama_get_memory(context_.get()), slot, new_length, -1)) {
    llama_memory_seq_rm(llama_get_memory(context_.get()), slot, -1, -1);  // a memory that cannot keep a prefix is cleared
    new_length = 0;
  }
  cached = new_length;
}

void Context::checkpoint(int slot, int pass_tokens) {
  if (recurrent_) recurrent_->checkpoint(slot, length(slot), pass_tokens);
}

void Context::copy(int from, int to) {
  if (from == to) return;
  if (recurrent_) {  // llama.cpp shares a recurrent state, but not which of its snapshots is the current one
    restore(to, state(from), length(from));
    return;
  }
  llama_memory_t memory = llama_get_memory(context_.get());
  llama_memory_seq_rm(memory, to, -1, -1);
  llama_memory_seq_cp(memory, from, to, -1, -1);           // the cells themselves are copied ahead of the next pass
  if (options_.is_shared) context_->memory_update(false);  // or now, for the pass of an assistant
  lengths_[static_cast<std::size_t>(to)] = length(from);
}

std::string Context::state(int slot) const {
  if (is_assistant()) return "";
  std::string bytes(llama_state_seq_get_size(context_.get(), slot), '\0');
  auto* const data = reinterpret_cast<std::uint8_t*>(bytes.data());
  bytes.resize(llama_state_seq_get_data(context_.get(), data, bytes.size(), slot));
  return bytes;
}

bool Context::restore(int slot, const std::string& state, int length) {
  truncate(slot, 0);
  if (recurrent_) recurrent_->forget(slot);
  const int first = is_eagle3() ? 1 : 0;
  if (length <= first || is_assistant()) {
    lengths_[static_cast<std::size_t>(slot)] = length;
    return true;
  }
  llama_memory_t memory = llama_get_memory(context_.get());
  bool is_restored = false;
  try {
    const AbortsAsErrors guard;
    const auto* const data = reinterpret_cast<const std::uint8_t*>(state.data());
    is_restored = llama_state_seq_set_data(context_.get(), data, state.size(), slot) == state.size() &&
                  (recurrent_ || llama_memory_seq_pos_min(memory, slot) == first) && llama_memory_seq_pos_max(memory, slot) == length - 1;
  } catch (const std::exception&) {  // a failed assertion
  }
  take_backend_errors();
  if (is_restored) lengths_[static_cast<std::size_t>(slot)] = length;
  else llama_memory_seq_rm(memory, slot, -1, -1);
  return is_restored;
}

// Called between the operations of a pass. The caller's check may take microseconds, so it is called only now and then.
bool Context::ask_cancelled() { return cancelled_ && ++nodes_computed_ % 16 == 0 && cancelled_(); }

}  // namespace specdec
