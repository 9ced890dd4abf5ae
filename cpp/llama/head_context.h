// Contexts that provide or read hidden rows: the target of a drafting head, and the head's layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llama/context.h"
#include "speculative/head_models.h"

namespace specdec {

class HeadTarget final : public Context, public HiddenRowModel {
 public:
  struct Rows {
    std::vector<int> layers;  // a row is the concatenated inputs of these layers; empty: the output of the last layer
    bool has_output_row = true;  // the number of layers stands for the model's hidden row, as EAGLE-3 heads read it
  };
  // Throws ModelError like Context, and if llama.cpp does not provide the architecture's rows and they cannot be
  // watched.
  HeadTarget(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads, const Options& options,
             Rows rows);

  void decode(const std::vector<PassInput>& inputs) override;
  int hidden_size() const override { return hidden_size_; }
  const float* hidden_row(int token) const override;

 private:
  // A layer whose input llama.cpp's graph computes but does not return: we read it while a pass runs.
  struct Watched {
    int layer;
    std::string name;         // the tensor's: the output of the previous layer
    int num_read = 0;         // tokens of the running pass
    std::vector<float> rows;  // [tokens of the batch][width]
  };

  static Setup target_setup(const Model& model, const Options& options, HeadTarget* self);
  void add(const PassPart& part) override;
  void before_pass() override;
  void after_pass() override;
  void ask_for_rows();
  bool gives_rows();
  void watch_rows();
  bool watch(ggml_tensor* tensor, bool ask);
  void order_batch();
  bool collects_rows() const { return reads_in_pieces() || reads_picture_ || !rows_.layers.empty(); }
  void collect_rows();
  void collect(const float* row, std::size_t size);
  const float* layer_row(int layer, int place) const;
  bool is_output(int layer) const;
  [[noreturn]] void reject_layers() const;

  Rows rows_;
  int hidden_size_;
  bool reads_picture_ = false;    // in the running or last decode(), which may take several passes
  std::vector<int> places_;       // in the last pass's batch, of the inputs' tokens
  std::vector<Watched> watched_;  // ascending layers
  // Of the running pass if rows are watched: places in the order in which they are computed.
  std::vector<int> order_;
  std::vector<float> collected_;  // rows that come from chosen layers or several passes: [tokens][hidden_size_]
};

class HeadContext : public Context, public HeadLayers {
 public:
  // A context for one layer of a model's loaded head, which is in the target's file or in its own. The target must
  // outlive it.
  static std::unique_ptr<HeadContext> create(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads,
                                             const Options& options, const HeadTarget& target, int layer = 0);

  void decode(const std::vector<PassInput>& inputs) override { decode_with(inputs, nullptr); }
  void decode_with(const std::vector<PassInput>& inputs, const float* rows) override;
  const float* logits(int row) const override;
  int hidden_size() const override { return hidden_size_; }
  const float* hidden_row(
      int token) const override;  // for some heads (OwnHeadInfo::rows_need_logits) only the last token of an input

 protected:
  // How a head reads a text, at the target's positions. Of a token that it does not read, only the place is counted,
  // and pictures under M-RoPE are not read, but their last row is.
  struct Reading {
    bool only_last = false;            // of a pass; of a tree each node, by itself
    bool skips_first = false;          // of the text, unless it is the last so far
    bool makes_rows_together = false;  // llama.cpp computes logits for every token of a pass that computes any
    bool takes_position = false;       // each token has the position that the target reads next
  };
  HeadContext(std::shared_ptr<const Model> model, std::shared_ptr<ThreadPool> threads, const Options& options,
              const Setup& setup, const Reading& reading, const Context& target);

 private:
  void add(const PassPart& part) override;
  bool reads(const PassPart& part, int index) const;
  void add_tree(const PassPart& part, int num_nodes);
  void add(Token token, int slot, bool makes_row, const float* hidden);

  const Reading reading_;
  const Context& target_;
  int hidden_size_;
  // Computes logits for the last token of every input, which otherwise has no hidden row.
  bool wants_last_rows_;
  std::vector<float> read_rows_;     // of the running pass: [batch_size()][hidden_size_]
  const float* next_row_ = nullptr;  // of the inputs' tokens; null: zeros
  bool wants_all_rows_ = false;
  std::vector<int> places_;    // in the last pass's batch, of the inputs' tokens; -1: not read
  std::vector<float> no_row_;  // of a place that is not read: [hidden_size_]
  std::vector<int> rows_;      // rows of logits among those that llama.cpp computed in the last pass
  int num_made_rows_ = 0;      // rows that llama.cpp computed in the last pass
};

}  // namespace specdec
