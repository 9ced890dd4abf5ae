#include "llama/block_context.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/index.h"
#include "llama.h"
#include "speculative/sequence.h"

namespace specdec {
namespace {

// llama.cpp computes logits for every token of a block, and reserves memory for the most that a pass may have.
constexpr int most_tokens_per_pass = 128;

Context::Setup setup_of(const Model& model, const Context::Options& options, const HeadTarget& target) {
  Context::Setup setup{model.head_cache_bytes(num_cells(options), options.kv_type), false, options.batch_size};
  setup.target = &target;
  setup.allows_padding = false;
  return setup;
}

}  // namespace

int BlockContext::most_places(const BlockFile& file) { return std::min(file.num_places(), max_draft_tokens); }

Context::Options BlockContext::options_for(const HeadTarget& target, const Options& target_options,
                                           const BlockFile& file) {
  const int block = most_places(file) + 1;
  Options options = target_options;
  options.num_snapshots = 0;
  options.context_length = target.context_length() + block;
  options.batch_size = std::max(block, std::min(options.batch_size, std::max(most_tokens_per_pass, options.num_slots)));
  options.max_rows = options.batch_size;
  return options;
}

BlockContext::BlockContext(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads,
                           const Options& options, const HeadTarget& target, const BlockFile& file)
    : Context(model, std::move(threads), options, setup_of(*model, options, target)),
      file_(file),
      row_size_(target.hidden_size()),
      positions_per_row_(llama_model_rope_type(model->get()) == LLAMA_ROPE_TYPE_MROPE ? 4 : 1) {
  llama_set_causal_attn(get(), file_.is_causal);
}

// With M-RoPE a row has four positions; text uses the first three.
void BlockContext::read(const std::vector<Rows>& inputs, const float* rows) {
  int num_rows = 0;
  for (const Rows& input : inputs) num_rows += input.count;
  if (num_rows > batch_size()) throw std::logic_error("a pass would exceed the batch size");
  begin_pass();
  remember_lengths();
  slots_.clear();
  positions_.clear();
  for (const Rows& input : inputs) {
    for (int i = 0; i < input.count; ++i) {
      slots_.push_back(input.slot);
      positions_.push_back(next_position(input.slot).value);
      skip(input.slot);
    }
  }
  const std::size_t count = slots_.size();
  for (int more = 1; more < positions_per_row_; ++more) {
    for (std::size_t i = 0; i < count; ++i) positions_.push_back(more < 3 ? positions_[i] : 0);
  }
  ones_.assign(count, 1);
  wants_output_.assign(count, 0);
  slot_lists_.clear();
  for (std::int32_t& slot : slots_) slot_lists_.push_back(&slot);
  llama_batch batch = {};
  batch.n_tokens = static_cast<std::int32_t>(count);
  batch.embd = const_cast<float*>(rows);
  batch.pos = positions_.data();
  batch.n_seq_id = ones_.data();
  batch.seq_id = slot_lists_.data();
  batch.logits = wants_output_.data();
  try {
    run_pass(batch, {});
  } catch (...) {
    for (const Rows& input : inputs) put_back(input.slot);
    throw;
  }
}

void BlockContext::remember_lengths() {
  before_.clear();
  for (int slot = 0; slot < options().num_slots; ++slot) before_.push_back(length(slot));
}

// Restores the slot's length before the running pass, even if the slot was empty and begins after the text's first
// token.
void BlockContext::put_back(int slot) {
  const int before = before_[idx(slot)];
  if (before > first(slot)) truncate(slot, before);
  if (length(slot) != before) start_at(slot, before);
}

void BlockContext::fill(const std::vector<Block>& blocks, int num_places) {
  const int size = block_tokens(num_places);
  tokens_.assign(blocks.size() * idx(size), file_.mask);
  inputs_.clear();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Token* const tokens = tokens_.data() + i * idx(size);
    tokens[0] = blocks[i].anchor;
    inputs_.push_back({blocks[i].slot, tokens, size, size});
  }
  num_places_ = num_places;
  remember_lengths();
  if (has_confidences()) llama_set_embeddings(get(), true);  // the rows that the output matrix reads
  try {
    decode(inputs_);
  } catch (...) {
    llama_set_embeddings(get(), false);
    for (const Block& block : blocks) put_back(block.slot);
    throw;
  }
  llama_set_embeddings(get(), false);
  for (const Block& block : blocks) put_back(block.slot);
}

int BlockContext::place_of(int row) const {
  const int block = row / num_places_, place = row % num_places_;
  return block * block_tokens(num_places_) + place + (file_.fills_anchor ? 0 : 1);
}

const float* BlockContext::logits(int row) const { return Context::logits(place_of(row)); }

float BlockContext::score(int row) const {
  return model().block_rows()->score(llama_get_embeddings_ith(get(), place_of(row)));
}

}  // namespace specdec
