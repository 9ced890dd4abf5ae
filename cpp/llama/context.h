// A LanguageModel: a loaded model with its own KV cache.
#pragma once

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/index.h"
#include "llama/model.h"
#include "llama/pass_policy.h"
#include "llama/recurrent_state.h"
#include "llama/slot_text.h"
#include "speculative/windowed_model.h"

struct ggml_tensor;
struct ggml_threadpool;
struct llama_batch;
struct llama_context;

namespace specdec {

// Worker threads, kept between passes; may be shared by several contexts.
class ThreadPool {
 public:
  // polls: idle threads look for work for a while before they sleep.
  explicit ThreadPool(int num_threads, bool polls = true);
  int size() const { return size_; }
  ggml_threadpool* get() const { return pool_.get(); }

 private:
  struct Free {
    void operator()(ggml_threadpool* pool) const;
  };
  int size_;
  std::unique_ptr<ggml_threadpool, Free> pool_;
};

class Batch;

// Runs a whole model. Contexts with hidden rows are in head_context.h.
class Context : public WindowedModel {
 public:
  struct Options {
    int context_length = 0;     // tokens per sequence, or of its window
    bool holds_window = false;  // the caches are windows of longer texts (WindowedModel)
    int num_slots = 1;          // sequences
    int batch_size = 512;       // tokens per pass
    int max_rows = 64;          // rows of logits per pass
    KvType kv_type = KvType::f16;
    // Snapshots of recurrent layers, to roll back as many tokens; fewer if memory or the architecture forbids it.
    int num_snapshots = 0;
    bool reads_pictures = false;  // their rows are as wide as the model's projector makes them
    // The width of passes (pass_shape.h), for models on devices whose kernels are not batch-invariant; 0: passes have
    // any width.
    int width = 0;
  };

  // Which part of a model a context runs, and what llama.cpp needs for that.
  struct Setup {
    std::uint64_t cache_bytes;  // of keys and values
    bool is_recurrent;          // some layers have a state that cannot be truncated
    int max_made_rows;          // of logits in a pass
    bool runs_prediction_layers = false;
    bool makes_embeddings = false;  // for every token of a pass with rows; such a model may lack a cache
    bool allows_padding = true;
    bool reads_trees = false;   // as far as its memory allows it
    bool pads_trees = false;    // to make passes over several as wide
    Position first_position{};  // of a slot's cells
    const Context* target =
        nullptr;  // its embeddings, output matrix, keys and values replace those that the file lacks
    // ggml calls this for every tensor before a pass computes it (ask), and again, after computing it, for those that
    // it wants.
    bool (*watch)(ggml_tensor* tensor, bool ask, void* watcher) = nullptr;
    void* watcher = nullptr;
  };

  // Throws ModelError if the cache does not fit into memory or the model does not support its type.
  Context(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads, const Options& options);
  ~Context() override;

  int vocabulary_size() const override { return vocabulary_size_; }
  // A window can move on without end.
  int context_length() const override { return options_.holds_window ? INT_MAX : options_.context_length; }
  int end(int slot) const override { return first(slot) + options_.context_length; }
  int batch_size() const override { return options_.batch_size; }
  int row_capacity() const override { return std::min(options_.max_rows, options_.batch_size); }
  bool is_end_of_generation(Token token) const override { return model_->vocabulary().is_end_of_generation(token); }

  void decode(const std::vector<PassInput>& inputs) override;
  // A pass with the model's rounded weights (rounded_weights.h), over nodes of trees only. The next pass of the slot
  // with other weights drops them, as truncate() does.
  void decode_rounded(const std::vector<PassInput>& inputs);
  int num_rounded_nodes(int slot) const { return text(slot).has_rounded_nodes ? text(slot).num_nodes() : 0; }
  const float* logits(int row) const override;
  int pass_size() const override { return pass_size_; }
  // Of passes; 0: any. Less than asked for if recurrent layers cannot take padding back.
  int width() const { return shape() ? shape()->width : 0; }
  // Uses the devices' batch-invariant kernels, if they have some, for passes without padding. Since a driver may
  // compile them otherwise for each number of tokens, the rows of some tokens are compared in passes of all widths.
  // Returns false if passes are padded. To be called before anything is read.
  bool leave_out_padding();
  int length(int slot) const override { return text(slot).length; }
  Position position_of(int slot, int place) const { return text(slot).position_of(place); }  // slot_text.h
  // Whether the place belongs to a picture that has fewer positions than places.
  bool shares_position(int slot, int place) const;
  // On devices, prompts are dropped in whole pieces.
  void truncate(int slot, int length) override;
  int reusable(int slot, int length) const override;
  int prompt_piece() const override { return shape() ? shape()->prompt_width : 1; }
  void expect_prompt(int slot, int length) override { text(slot).prompt_end = length; }
  void checkpoint(int slot, int pass_tokens) override;
  void copy(int from, int to) override;

  bool reads_pictures() const override { return options_.reads_pictures; }
  bool reads_trees() const override { return reads_trees_; }
  void keep_path(int slot, const std::vector<int>& nodes) override;

  int first(int slot) const override { return text(slot).first; }
  void start_at(int slot, int place) override;
  bool drop_before(int slot, int place) override;

  // The cache of a slot as bytes in llama.cpp's format, and back. restore(): `length` is the number of tokens in the
  // state; returns false and empties the slot if the bytes do not fit this context. The bytes must come from state():
  // llama.cpp checks little.
  virtual std::string state(int slot) const;
  virtual bool restore(int slot, const std::string& state, int length);

  bool has_recurrent_layers() const { return recurrent_.has_value(); }
  // There was no memory for num_snapshots, although the architecture supports them.
  bool lacks_snapshots() const { return lacks_snapshots_; }

  // The check is called regularly while a pass runs, on the thread that called decode(); if it returns true, the pass
  // throws Cancelled.
  void set_cancel_check(std::function<bool()> cancelled) { cancelled_ = std::move(cancelled); }

 protected:
  Context(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options,
          const Setup& setup);
  static Setup whole_model_setup(const Model& model, const Options& options);

  // Adds the part's tokens and its padding to the batch of the running pass.
  virtual void add(const PassPart& part);
  virtual void before_pass() {}  // the batch is complete
  virtual void after_pass() {}
  bool reads_in_pieces() const { return shape().has_value(); }
  void add(Token token, int slot, Position position, bool makes_row);
  // Of a tree, at the end of the part's tokens.
  int num_new_nodes(const PassPart& part) const;
  void add_nodes(const PassPart& part, int num_nodes);
  void add_padding(const PassPart& part);
  void drop_nodes_of_padding(const PassPart& part);
  Token known(Token token) const;
  void skip(int slot) { ++text(slot).length; }  // counts a token that is not read
  // Counts a place of a picture that is not read. like: the context whose positions this one has; null: it takes none.
  void skip_picture(int slot, const Context* like);

  // Of the token that the slot reads next; 0 when reading of a window begins.
  Position next_position(int slot) const { return text(slot).next_position(); }

  void encode(const llama_batch& rows);  // a pass of llama.cpp's encoder
  // Of the rows of logits that a pass makes.
  struct RowRange {
    int begin = 0, end = 0;
  };
  // Bracket a pass over the caller's own batch; the caller counts its tokens with skip() in between. If the pass
  // throws, the slots hold what they held at begin_pass().
  void begin_pass();
  void run_pass(const llama_batch& batch, RowRange wanted);

  const Model& model() const { return *model_; }
  const Options& options() const { return options_; }
  llama_context* get() const { return context_.get(); }
  Batch& batch() { return *batch_; }
  const Batch& batch() const { return *batch_; }

 private:
  struct Free {
    void operator()(llama_context* context) const;
  };
  // A change of a slot's cells. Unless it is committed, the slot is empty in the end: what is recorded about it never
  // differs from what llama.cpp holds.
  class CellChange {
   public:
    CellChange(Context& context, int slot) : context_(context), slot_(slot) {}
    ~CellChange();
    CellChange(const CellChange&) = delete;
    CellChange& operator=(const CellChange&) = delete;
    void commit() { is_committed_ = true; }

   private:
    Context& context_;
    const int slot_;
    bool is_committed_ = false;
  };

  SlotText& text(int slot) { return texts_[idx(slot)]; }
  const SlotText& text(int slot) const { return texts_[idx(slot)]; }
  std::string cells(int slot) const;
  bool restore_cache(int slot, const std::string& state, int length, const std::vector<SlotText::Picture>& pictures);
  bool put_state(int slot, const std::string& state);
  bool ask_cancelled();
  template <class Call>
  auto guarded(Call call) const -> decltype(call());
  bool finish_on_devices(const std::string& error) const;  // lost_devices.h
  void check_pass(int status, int num_tokens);
  void try_pass(const llama_batch& batch, RowRange wanted);
  void undo_pass();
  void choose_shape(bool pads);
  std::vector<float> rows_of(const std::vector<Token>& tokens, const std::vector<int>& passes);
  const std::optional<PassShape>& shape() const { return policy_.shape(); }
  const std::vector<PassPolicy::Slot>& slots_for_policy();
  void run(const PlannedPass& pass);
  void add_rows(const PassPart& part);
  void count_piece(const PassPart& part);
  void drop_padding(int slot) const;
  void drop_tree(int slot);

  std::shared_ptr<const Model> model_;
  std::shared_ptr<ThreadPool> threads_;
  Options options_;
  int vocabulary_size_;
  std::unique_ptr<llama_context, Free> context_;
  mutable std::optional<RecurrentState> recurrent_;  // for models with recurrent layers
  bool lacks_snapshots_ = false;
  bool reads_trees_ = false;
  std::unique_ptr<Batch> batch_;
  mutable std::vector<SlotText> texts_;  // [num_slots]; padding is dropped when a slot is looked at
  const Position first_position_;        // of a slot's cells
  PassPolicy policy_;
  std::vector<PassPolicy::Slot> policy_slots_;  // scratch of decode()
  std::vector<int> row_positions_;              // of the running pass over a picture: [axes][rows]
  bool makes_all_rows_ = false;                 // in the running pass, also for padding
  bool reads_rounded_ = false;                  // in the running pass
  std::vector<float> rows_;                     // of the last decode(), if more than one of its passes made some
  const float* logits_ = nullptr;
  int pass_size_ = 0;
  std::function<bool()> cancelled_;
  unsigned nodes_computed_ = 0;
};

std::uint64_t num_cells(const Context::Options& options);  // of the caches of all slots

}  // namespace specdec
