#include "llama/head_context.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/failed_assertions.h"
#include "base/index.h"
#include "llama-context.h"
#include "llama-ext.h"
#include "llama.h"
#include "llama/batch.h"

namespace specdec {
namespace {

// EAGLE-3 heads are trained to read the tokens after the first, each with the target's row of the one before it. So the
// first is in the cache only while it is the last.
class Eagle3 final : public HeadContext {
 public:
  Eagle3(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options,
         const Setup& setup, int target_row_size)
      : HeadContext(std::move(model), std::move(threads), options, setup), target_row_size_(target_row_size) {}

  int target_row_size() const override { return target_row_size_; }

  // By llama.cpp's encoder.
  const float* fuse(const float* target_rows, int count) override {
    wants_output_.assign(idx(count), 1);
    llama_batch rows = {};
    rows.n_tokens = count;
    rows.logits = wants_output_.data();
    rows.embd = const_cast<float*>(target_rows);
    encode(rows);
    return llama_get_embeddings_nextn(get());
  }

 private:
  void add_input(const PassInput& input) override {
    if (length(input.slot) == 1) llama_memory_seq_rm(llama_get_memory(get()), input.slot, -1, -1);
    HeadContext::add_input(input);
  }
  bool reads(const PassInput& input, int i) const override {
    return length(input.slot) > 0 || i == input.num_tokens - 1;
  }
  bool makes_rows_together() const override { return true; }
  int first_position() const override { return 1; }

  int target_row_size_;
  std::vector<std::int8_t> wants_output_;  // scratch of fuse()
};

// Gemma 4's. It attends to the target's cache and keeps nothing of what it reads, so only the last token counts; all of
// its drafts have the position of the token that the target reads next.
class Assistant final : public HeadContext {
 public:
  Assistant(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options,
            const Setup& setup, const Context& target)
      : HeadContext(std::move(model), std::move(threads), options, setup), target_(target) {}

  std::string state(int /*slot*/) const override { return ""; }
  bool restore(int slot, const std::string& /*state*/, int new_length) override {
    truncate(slot, 0);
    while (length(slot) < new_length) skip(slot);
    return true;
  }

 private:
  bool reads(const PassInput& input, int i) const override { return i == input.num_tokens - 1; }
  int position(int slot) const override { return target_.length(slot); }
  bool can_pad() const override { return false; }

  const Context& target_;
};

}  // namespace

HeadTarget::HeadTarget(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads,
                       const Options& options, Rows rows)
    : Context(model, std::move(threads), options), rows_(std::move(rows)) {
  const int num_layers = static_cast<int>(rows_.layers.size());
  hidden_size_ = num_layers > 0 ? num_layers * llama_model_n_embd(this->model().get())
                                : llama_model_n_embd_out(this->model().get());
  ask_for_rows();
}

// The output of the last layer of all: where a head reads it as such, not as the input of what follows.
bool HeadTarget::is_output(int layer) const {
  return rows_.has_output_row && layer == llama_model_n_layer(model().get());
}

void HeadTarget::ask_for_rows() {
  const std::vector<int>& layers = rows_.layers;
  const bool wants_output =
      layers.empty() || std::any_of(layers.begin(), layers.end(), [&](int layer) { return is_output(layer); });
  if (wants_output) llama_set_embeddings_nextn(get(), true, false);
  for (const int layer : layers) {
    if (!is_output(layer)) llama_set_embeddings_layer_inp(get(), static_cast<std::uint32_t>(layer), true);
  }
  if (layers.empty()) return;
  try {
    const AbortsAsErrors guard;
    const auto slots = static_cast<std::uint32_t>(options().num_slots);
    llama_graph_reserve(get(), slots, slots, slots);
  } catch (const std::runtime_error&) {
    reject_layers();
  }
  // Of a graph without them llama.cpp would return memory that nothing wrote.
  if (wants_output && get()->get_gf_res_reserve()->get_h_nextn() == nullptr) reject_layers();
}

void HeadTarget::reject_layers() const {
  throw ModelError(model().path() + ": llama.cpp does not give the rows of the layers of architecture " +
                   model().architecture() + " that the drafting head reads. Use another draft, or \"suffix\"");
}

void HeadTarget::decode(const std::vector<PassInput>& inputs) {
  places_.clear();
  Context::decode(inputs);
  if (!rows_.layers.empty()) collect_rows();
}

void HeadTarget::add_input(const PassInput& input) {
  for (int i = 0; i < input.num_tokens; ++i) places_.push_back(batch().size() + i);
  Context::add_input(input);
}

void HeadTarget::collect_rows() {
  const auto width = idx(llama_model_n_embd(model().get()));
  collected_.resize(places_.size() * idx(hidden_size_));
  float* to = collected_.data();
  for (const int place : places_) {
    for (const int layer : rows_.layers) {
      const float* from = is_output(layer) ? llama_get_embeddings_nextn_ith(get(), place)
                                           : llama_get_embeddings_layer_inp(get(), static_cast<std::uint32_t>(layer)) +
                                                 idx(place) * width;
      to = std::copy_n(from, width, to);
    }
  }
}

const float* HeadTarget::hidden_row(int token) const {
  if (!rows_.layers.empty()) return collected_.data() + idx(token) * idx(hidden_size_);
  return llama_get_embeddings_nextn_ith(get(), places_[idx(token)]);
}

std::unique_ptr<HeadContext> HeadContext::create(std::shared_ptr<const Model> model,
                                                 std::shared_ptr<ThreadPool> threads, const Options& options,
                                                 const HeadTarget& target) {
  Setup setup{model->head_cache_bytes(num_cells(options), options.kv_type), false, options.max_rows};
  switch (model->head_kind()) {
    case HeadKind::eagle3:
      setup.max_made_rows = options.batch_size;
      setup.target = &target;
      return std::make_unique<Eagle3>(std::move(model), std::move(threads), options, setup, target.hidden_size());
    case HeadKind::assistant:
      setup.runs_prediction_layers = true;
      setup.target = &target;
      return std::make_unique<Assistant>(std::move(model), std::move(threads), options, setup, target);
    case HeadKind::mtp:
      setup.runs_prediction_layers = true;
      return std::unique_ptr<HeadContext>(new HeadContext(std::move(model), std::move(threads), options, setup));
    default:
      throw std::logic_error("a context of a drafting head needs one");
  }
}

HeadContext::HeadContext(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads,
                         const Options& options, const Setup& setup)
    : Context(std::move(model), std::move(threads), options, setup),
      hidden_size_(llama_model_n_embd_out(this->model().get())),
      wants_last_rows_(this->model().head_rows_need_logits()),
      read_rows_(idx(options.batch_size) * idx(hidden_size_)) {
  batch().read_rows(read_rows_.data());
  llama_set_embeddings_nextn(get(), true, wants_last_rows_);  // of every token, or of those with logits
}

void HeadContext::decode_with(const std::vector<PassInput>& inputs, const float* rows) {
  places_.clear();
  rows_.clear();
  num_made_rows_ = 0;
  next_row_ = rows;
  wants_all_rows_ = makes_rows_together() && std::any_of(inputs.begin(), inputs.end(),
                                                         [](const PassInput& input) { return input.num_rows > 0; });
  Context::decode(inputs);
}

void HeadContext::add_input(const PassInput& input) {
  for (int i = 0; i < input.num_tokens; ++i) {
    const float* const row = next_row_;
    if (next_row_ != nullptr) next_row_ += hidden_size_;
    if (!reads(input, i)) {
      places_.push_back(-1);
      skip(input.slot);
      continue;
    }
    const bool wants_row = i >= input.num_tokens - input.num_rows, is_last = i == input.num_tokens - 1;
    places_.push_back(batch().size());
    if (wants_row) rows_.push_back(num_made_rows_);
    add(input.tokens[i], input.slot, wants_row || wants_all_rows_ || (wants_last_rows_ && is_last), row);
  }
}

void HeadContext::add_padding(int slot, int count) {
  for (int i = 0; i < count; ++i) add(0, slot, wants_all_rows_, nullptr);
}

// row: that is read with the token; null: zeros.
void HeadContext::add(Token token, int slot, bool makes_row, const float* row) {
  const auto to = read_rows_.begin() + static_cast<std::ptrdiff_t>(batch().size()) * hidden_size_;
  if (row == nullptr) std::fill_n(to, hidden_size_, 0.0f);
  else std::copy_n(row, hidden_size_, to);
  Context::add(token, slot, position(slot), makes_row);
  if (makes_row) ++num_made_rows_;
}

const float* HeadContext::logits(int row) const { return Context::logits(rows_[idx(row)]); }

const float* HeadContext::hidden_row(int token) const {
  return llama_get_embeddings_nextn_ith(get(), places_[idx(token)]);
}

}  // namespace specdec
