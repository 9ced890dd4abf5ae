#include "llama/head_context.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/failed_assertions.h"
#include "base/index.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "llama-context.h"
#include "llama-ext.h"
#include "llama.h"
#include "llama/batch.h"

namespace specdec {
namespace {

// EAGLE-3 heads are trained to read the tokens after the first one, each with the target's row of the token before it.
// So the first token is in the cache only while it is the last.
class Eagle3 final : public HeadContext {
 public:
  Eagle3(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options,
         const Setup& setup, const HeadTarget& target)
      : HeadContext(std::move(model), std::move(threads), options, setup, reading(), target),
        target_row_size_(target.hidden_size()) {}

  int target_row_size() const override { return target_row_size_; }

  // Runs llama.cpp's encoder.
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
  static Reading reading() {
    Reading reading;
    reading.skips_first = reading.makes_rows_together = true;
    return reading;
  }

  int target_row_size_;
  std::vector<std::int8_t> wants_output_;  // scratch of fuse()
};

// Gemma 4's assistants. They attend to the target's cache and keep nothing of what they read, so only the last token
// counts; all drafts have the position of the token that the target reads next. So do the nodes of a tree, each of
// which is read as if it were the only one.
class Assistant final : public HeadContext {
 public:
  Assistant(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options,
            const Setup& setup, const Context& target)
      : HeadContext(std::move(model), std::move(threads), options, setup, reading(), target) {}

  std::string state(int /*slot*/) const override { return ""; }
  bool restore(int slot, const std::string& /*state*/, int new_length) override {
    truncate(slot, 0);
    while (length(slot) < new_length) skip(slot);
    return true;
  }
  bool reads_trees() const override { return true; }

 private:
  static Reading reading() {
    Reading reading;
    reading.only_last = reading.takes_position = true;
    return reading;
  }
};

}  // namespace

HeadTarget::HeadTarget(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads,
                       const Options& options, Rows rows)
    : Context(model, std::move(threads), options, target_setup(*model, options, this)), rows_(std::move(rows)) {
  const int num_layers = static_cast<int>(rows_.layers.size());
  hidden_size_ = num_layers > 0 ? num_layers * llama_model_n_embd(this->model().get())
                                : llama_model_n_embd_out(this->model().get());
  ask_for_rows();
}

// Whether `layer` stands for the output of the last layer, which some heads read, rather than for a layer's input.
bool HeadTarget::is_output(int layer) const {
  return rows_.has_output_row && layer == llama_model_n_layer(model().get());
}

Context::Setup HeadTarget::target_setup(const Model& model, const Options& options, HeadTarget* self) {
  Setup setup = whole_model_setup(model, options);
  setup.watch = [](ggml_tensor* tensor, bool ask, void* watcher) {
    return static_cast<HeadTarget*>(watcher)->watch(tensor, ask);
  };
  setup.watcher = self;
  return setup;
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
  if (!gives_rows()) watch_rows();
  // If the graph has no such rows, llama.cpp returns uninitialised memory.
  if (wants_output && get()->get_gf_res_reserve()->get_h_nextn() == nullptr) reject_layers();
}

bool HeadTarget::gives_rows() {
  try {
    const AbortsAsErrors guard;
    const auto slots = static_cast<std::uint32_t>(options().num_slots);
    return llama_graph_reserve(get(), slots, slots, slots) != nullptr;
  } catch (const std::runtime_error&) {
    return false;
  }
}

// Most graphs compute a layer's input as the previous layer's tensor "l_out". Graphs with recurrent layers use a token
// order of llama.cpp's own.
void HeadTarget::watch_rows() {
  if (has_recurrent_layers()) reject_layers();
  for (const int layer : rows_.layers) {
    if (is_output(layer)) continue;
    if (layer < 1 || layer >= llama_model_n_layer(model().get())) reject_layers();
    llama_set_embeddings_layer_inp(get(), static_cast<std::uint32_t>(layer), false);
    const bool is_known =
        std::any_of(watched_.begin(), watched_.end(), [&](const Watched& w) { return w.layer == layer; });
    if (!is_known) watched_.push_back({layer, "l_out-" + std::to_string(layer - 1), 0, {}});
  }
  const auto slots = static_cast<std::uint32_t>(options().num_slots);
  ggml_cgraph* graph = llama_graph_reserve(get(), slots, slots, slots);
  const std::int64_t width = llama_model_n_embd(model().get());
  for (const Watched& watched : watched_) {
    int count = 0;
    for (int i = 0; graph != nullptr && i < ggml_graph_n_nodes(graph); ++i) {
      const ggml_tensor* node = ggml_graph_node(graph, i);
      if (watched.name != node->name) continue;
      const bool are_rows = node->type == GGML_TYPE_F32 && node->ne[0] == width && node->ne[1] == options().num_slots &&
                            node->ne[2] == 1 && node->ne[3] == 1 && ggml_is_contiguous(node);
      count += are_rows ? 1 : 2;
    }
    if (count != 1) reject_layers();
  }
}

bool HeadTarget::watch(ggml_tensor* tensor, bool ask) {
  if (std::strncmp(tensor->name, "l_out-", 6) != 0) return false;
  const auto found =
      std::find_if(watched_.begin(), watched_.end(), [&](const Watched& w) { return w.name == tensor->name; });
  if (found == watched_.end()) return false;
  if (ask) return true;
  const auto width = idx(tensor->ne[0]);
  for (std::int64_t i = 0; i < tensor->ne[1] && idx(found->num_read) < order_.size(); ++i) {
    const int place = order_[idx(found->num_read++)];
    ggml_backend_tensor_get(tensor, found->rows.data() + idx(place) * width, idx(i) * tensor->nb[1],
                            width * sizeof(float));
  }
  return true;  // continue the pass
}

// llama.cpp takes an equal number of tokens from each of several adjacent slots at a time (Context::worth_padding).
void HeadTarget::order_batch() {
  struct Part {
    int slot, begin, end;
  };
  std::vector<Part> parts;
  const llama_batch& tokens = batch().get();
  for (int i = 0; i < tokens.n_tokens; ++i) {
    const int slot = tokens.seq_id[i][0];
    if (parts.empty() || parts.back().slot != slot) parts.push_back({slot, i, i});
    ++parts.back().end;
  }
  order_.clear();
  for (std::size_t first = 0; first < parts.size();) {
    std::size_t last = first + 1;
    int count = parts[first].end - parts[first].begin;
    for (; last < parts.size() && parts[last].begin < parts[last].end && parts[last].slot == parts[last - 1].slot + 1;
         ++last)
      count = std::min(count, parts[last].end - parts[last].begin);
    for (std::size_t i = first; i < last; ++i) {
      for (int j = 0; j < count; ++j) order_.push_back(parts[i].begin++);
    }
    while (first < parts.size() && parts[first].begin == parts[first].end) ++first;
  }
}

void HeadTarget::reject_layers() const {
  throw ModelError(model().path() + ": llama.cpp does not give the rows of the layers of architecture " +
                   model().architecture() + " that the drafting head reads. Use another draft, or \"suffix\"");
}

void HeadTarget::decode(const std::vector<PassInput>& inputs) {
  places_.clear();
  collected_.clear();
  reads_picture_ = !inputs.empty() && inputs.front().picture != nullptr;
  Context::decode(inputs);
}

void HeadTarget::after_pass() {
  if (!collects_rows()) return;
  collect_rows();
  places_.clear();
}

void HeadTarget::before_pass() {
  if (watched_.empty()) return;
  order_batch();
  for (Watched& watched : watched_) {
    watched.num_read = 0;
    watched.rows.resize(order_.size() * idx(llama_model_n_embd(model().get())));
  }
}

void HeadTarget::add(const PassPart& part) {
  for (int i = 0; i < part.num_tokens; ++i) places_.push_back(batch().size() + i);
  Context::add(part);
}

void HeadTarget::collect_rows() {
  const auto width = idx(llama_model_n_embd(model().get()));
  for (const Watched& watched : watched_) {
    if (idx(watched.num_read) != order_.size())
      throw std::logic_error(watched.name + " does not have one row per token");
  }
  for (const int place : places_) {
    if (rows_.layers.empty()) collect(llama_get_embeddings_nextn_ith(get(), place), idx(hidden_size_));
    for (const int layer : rows_.layers) collect(layer_row(layer, place), width);
  }
}

void HeadTarget::collect(const float* row, std::size_t size) { collected_.insert(collected_.end(), row, row + size); }

const float* HeadTarget::layer_row(int layer, int place) const {
  if (is_output(layer)) return llama_get_embeddings_nextn_ith(get(), place);
  const std::size_t begin = idx(place) * idx(llama_model_n_embd(model().get()));
  for (const Watched& watched : watched_) {
    if (watched.layer == layer) return watched.rows.data() + begin;
  }
  return llama_get_embeddings_layer_inp(get(), static_cast<std::uint32_t>(layer)) + begin;
}

const float* HeadTarget::hidden_row(int token) const {
  if (collects_rows()) return collected_.data() + idx(token) * idx(hidden_size_);
  return llama_get_embeddings_nextn_ith(get(), places_[idx(token)]);
}

std::unique_ptr<HeadContext> HeadContext::create(std::shared_ptr<const Model> model,
                                                 std::shared_ptr<ThreadPool> threads, const Options& options,
                                                 const HeadTarget& target, int layer) {
  Setup setup{model->head_cache_bytes(num_cells(options), options.kv_type), false, options.max_rows};
  switch (model->head_kind()) {
    case HeadKind::eagle3:
      setup.max_made_rows = options.batch_size;
      setup.target = &target;
      setup.first_position = Position(1);
      setup.reads_trees = true;
      return std::make_unique<Eagle3>(std::move(model), std::move(threads), options, setup, target);
    case HeadKind::assistant:
      setup.runs_prediction_layers = true;
      setup.target = &target;
      setup.allows_padding = false;
      return std::make_unique<Assistant>(std::move(model), std::move(threads), options, setup, target);
    case HeadKind::mtp:
      setup.runs_prediction_layers = setup.reads_trees = true;
      break;
    default:
      throw std::logic_error("a context of a drafting head needs one");
  }
  std::unique_ptr<HeadContext> context(
      new HeadContext(std::move(model), std::move(threads), options, setup, {}, target));
  llama_set_nextn_layer_offset(context->get(), layer);
  return context;
}

HeadContext::HeadContext(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads,
                         const Options& options, const Setup& setup, const Reading& reading, const Context& target)
    : Context(std::move(model), std::move(threads), options, setup),
      reading_(reading),
      target_(target),
      hidden_size_(llama_model_n_embd_out(this->model().get())),
      wants_last_rows_(this->model().head_rows_need_logits()),
      read_rows_(idx(options.batch_size) * idx(hidden_size_)),
      no_row_(idx(hidden_size_)) {
  batch().read_rows(read_rows_.data());
  llama_set_embeddings_nextn(get(), true, wants_last_rows_);  // for every token, or for those with logits
}

void HeadContext::decode_with(const std::vector<PassInput>& inputs, const float* rows) {
  places_.clear();
  rows_.clear();
  num_made_rows_ = 0;
  next_row_ = rows;
  wants_all_rows_ =
      reading_.makes_rows_together &&
      std::any_of(inputs.begin(), inputs.end(), [](const PassInput& input) { return input.num_rows > 0; });
  Context::decode(inputs);
}

bool HeadContext::reads(const PassPart& part, int index) const {
  if (index == part.num_tokens - 1) return true;
  return !reading_.only_last && !(reading_.skips_first && length(part.slot) == 0);
}

void HeadContext::add(const PassPart& part) {
  const bool drops_first = reading_.skips_first && part.num_tokens > 0 && length(part.slot) == 1;
  if (drops_first) llama_memory_seq_rm(llama_get_memory(get()), part.slot, -1, -1);
  const int num_nodes = part.parents != nullptr && reading_.only_last ? part.num_tokens : num_new_nodes(part);
  for (int i = 0; i < part.num_tokens - num_nodes; ++i) {
    const float* const row = next_row_;
    if (next_row_ != nullptr) next_row_ += hidden_size_;
    // Places that share a position cannot be read one after another.
    const bool is_skipped = part.tokens[i] == in_picture && target_.shares_position(part.slot, length(part.slot));
    if (is_skipped || !reads(part, i)) {
      places_.push_back(-1);
      if (is_skipped) skip_picture(part.slot, &target_);
      else skip(part.slot);
      continue;
    }
    const bool wants_row = i >= part.num_tokens - part.num_rows, is_last = i == part.num_tokens - 1;
    places_.push_back(batch().size());
    if (wants_row) rows_.push_back(num_made_rows_);
    add(part.tokens[i], part.slot, wants_row || wants_all_rows_ || (wants_last_rows_ && is_last), row);
  }
  if (num_nodes > 0) add_tree(part, num_nodes);
  for (int i = 0; i < part.num_padding; ++i) add(0, part.slot, wants_all_rows_, nullptr);
}

void HeadContext::add_tree(const PassPart& part, int num_nodes) {
  if ((wants_all_rows_ && part.num_rows != part.num_tokens) || next_row_ == nullptr)
    throw std::logic_error("a head reads the nodes of a tree with rows, and makes all rows or those that are wanted");
  for (int i = 0; i < num_nodes; ++i) {
    const int place = batch().size() + i;
    std::copy_n(next_row_, hidden_size_, read_rows_.begin() + static_cast<std::ptrdiff_t>(place) * hidden_size_);
    next_row_ += hidden_size_;
    places_.push_back(place);
    if (i >= num_nodes - part.num_rows) rows_.push_back(num_made_rows_++);
  }
  if (!reading_.only_last) return add_nodes(part, num_nodes);
  const Position position = target_.position_of(part.slot, target_.length(part.slot));
  for (int i = 0; i < num_nodes; ++i) batch().add(known(part.tokens[i]), position, part.slot, true);
}

// row: read with the token; null: zeros.
void HeadContext::add(Token token, int slot, bool makes_row, const float* row) {
  const auto to = read_rows_.begin() + static_cast<std::ptrdiff_t>(batch().size()) * hidden_size_;
  if (row == nullptr) std::fill_n(to, hidden_size_, 0.0f);
  else std::copy_n(row, hidden_size_, to);
  const int place = reading_.takes_position ? target_.length(slot) : length(slot);
  Context::add(token, slot, target_.position_of(slot, place), makes_row);
  if (makes_row) ++num_made_rows_;
}

const float* HeadContext::logits(int row) const { return Context::logits(rows_[idx(row)]); }

const float* HeadContext::hidden_row(int token) const {
  if (places_[idx(token)] < 0) return no_row_.data();
  return llama_get_embeddings_nextn_ith(get(), places_[idx(token)]);
}

}  // namespace specdec
