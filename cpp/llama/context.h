// A LanguageModel: a loaded model with its own KV cache.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llama/model.h"
#include "llama/recurrent_state.h"
#include "speculative/language_model.h"

struct ggml_threadpool;
struct llama_context;

namespace specdec {

// Worker threads, kept between passes; may be shared by several contexts.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  int size() const { return size_; }
  ggml_threadpool* get() const { return pool_.get(); }

 private:
  struct Free {
    void operator()(ggml_threadpool* pool) const;
  };
  int size_;
  std::unique_ptr<ggml_threadpool, Free> pool_;
};

class Context final : public LanguageModel {
 public:
  struct Options {
    int context_length = 0;  // tokens per sequence
    int num_slots = 1;       // sequences
    int batch_size = 512;    // tokens per pass
    int max_rows = 64;       // rows of logits per pass
    KvType kv_type = KvType::f16;
    bool gives_hidden_rows = false;   // for a drafting head
    std::vector<int> hidden_layers;   // hidden rows are the inputs of these layers, side by side; empty: the output of the last
    bool is_head = false;             // of the drafting head of the model's file (Model::has_head()) instead of its other layers
    const Context* target = nullptr;  // of a head in a file of its own; outlives it
    bool is_shared = false;           // an assistant reads this cache
    int num_snapshots = 0;  // of recurrent layers, for rollbacks of as many tokens; fewer where memory or the architecture forbids it
  };

  // Throws ModelError if the cache does not fit into memory or its type does not suit the model.
  Context(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options);
  ~Context() override;

  int vocabulary_size() const override { return vocabulary_size_; }
  int context_length() const override { return options_.context_length; }
  int batch_size() const override { return options_.batch_size; }
  int row_capacity() const override { return std::min(options_.max_rows, options_.batch_size); }
  bool is_end_of_generation(Token token) const override { return model_->vocabulary().is_end_of_generation(token); }

  void decode(const std::vector<PassInput>& inputs) override;
  const float* logits(int row) const override;
  int pass_size() const override { return pass_size_; }
  int hidden_size() const override { return hidden_size_; }
  const float* hidden_row(int token) const override;  // of some heads (OwnHeadInfo::rows_need_logits) the last of an input only
  int target_row_size() const override { return target_row_size_; }
  const float* fuse(const float* target_rows, int count) override;
  int length(int slot) const override { return lengths_[static_cast<std::size_t>(slot)]; }
  void truncate(int slot, int length) override;
  void checkpoint(int slot, int pass_tokens) override;
  void copy(int from, int to) override;

  // The cache of a slot as bytes, in llama.cpp's format, and back. restore(): `length` is the number of tokens in it; false, with an empty
  // cache, where the bytes do not suit this context. They must be those of state(): llama.cpp checks little.
  std::string state(int slot) const;
  bool restore(int slot, const std::string& state, int length);

  bool has_recurrent_layers() const { return recurrent_.has_value(); }
  // There was no memory for num_snapshots, which the architecture has.
  bool lacks_snapshots() const { return lacks_snapshots_; }

  // Called regularly while a pass runs, on the thread that called decode(); true ends the pass with Cancelled.
  void set_cancel_check(std::function<bool()> cancelled) { cancelled_ = std::move(cancelled); }

 private:
  struct Free {
    void operator()(llama_context* context) const;
  };
  class Batch;
  bool ask_cancelled();
  bool is_eagle3() const { return options_.is_head && model_->head_kind() == HeadKind::eagle3; }
  bool is_assistant() const { return options_.is_head && model_->head_kind() == HeadKind::assistant; }
  void give_hidden_rows();
  void make_hidden_rows();
  void run_pass(bool wants_logits);
  void check_pass(int status, int num_tokens);
  void undo_pass();
  bool worth_padding(const std::vector<PassInput>& inputs, int width);
  void add_input(const PassInput& input);
  void add_padding(int slot, int count);
  void add(Token token, int slot, int position, bool makes_row, const float* hidden);

  std::shared_ptr<const Model> model_;
  std::shared_ptr<ThreadPool> threads_;
  Options options_;
  int vocabulary_size_;
  int hidden_size_;      // 0: neither read nor given
  int target_row_size_;  // of the target's rows that a head reads
  std::unique_ptr<llama_context, Free> context_;
  std::optional<RecurrentState> recurrent_;  // of models with recurrent layers
  bool lacks_snapshots_ = false;
  std::unique_ptr<Batch> batch_;
  std::vector<int> lengths_;         // [num_slots] tokens in the cache
  std::vector<int> lengths_before_;  // the running or last pass
  std::vector<int> places_;          // in the last pass's batch of the inputs' tokens; -1: left out
  bool wants_all_rows_ = false;      // llama.cpp's EAGLE-3 graph makes logits of all tokens of a pass or, if none is asked for, of none
  bool wants_last_rows_;             // logits of the last token of every input, which has no hidden row without
  std::vector<int> rows_;            // of logits, among those that llama.cpp makes in the last pass
  int num_made_rows_ = 0;            // by llama.cpp in the last pass
  std::vector<float> hidden_rows_;   // of the last pass, if they are put together here
  std::vector<int> left_;            // scratch of worth_padding()
  std::vector<std::int8_t> wants_fused_;  // scratch of fuse()
  const float* logits_ = nullptr;
  int pass_size_ = 0;
  std::function<bool()> cancelled_;
  unsigned nodes_computed_ = 0;
};

}  // namespace specdec
