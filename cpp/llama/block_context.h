// The layers of a block drafter (architecture dflash) as llama.cpp runs them: a batch of hidden rows fills their cache,
// a batch of tokens is a block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "llama/context.h"
#include "llama/head_context.h"
#include "model_file/block_file.h"
#include "speculative/head_models.h"

namespace specdec {

class BlockContext final : public Context, public BlockLayers {
 public:
  // model: a loaded drafter. file: its metadata. The target must outlive the context.
  BlockContext(const std::shared_ptr<const Model>& model, std::shared_ptr<ThreadPool> threads, const Options& options,
               const HeadTarget& target, const BlockFile& file);

  // Options for sequences as long as the target's, with cells and rows for the blocks.
  static Options options_for(const HeadTarget& target, const Options& target_options, const BlockFile& file);
  static int most_places(const BlockFile& file);

  int target_row_size() const override { return row_size_; }
  int most_places() const override { return most_places(file_); }
  int blocks_per_pass(int num_places) const override { return std::max(1, batch_size() / block_tokens(num_places)); }
  void read(const std::vector<Rows>& inputs, const float* rows) override;
  void fill(const std::vector<Block>& blocks, int num_places) override;
  const float* logits(int row) const override;
  bool has_confidences() const override { return model().block_rows()->has_confidences(); }
  float score(int row) const override;
  double confidence_of(float score, Token before) const override {
    return model().block_rows()->confidence(score, before);
  }
  void empty(int slot, int place) override { start_at(slot, place); }
  bool finishes_rows() const override { return model().block_rows()->changes(); }
  void finish_row(Token before, float* logits) const override { model().block_rows()->finish(before, logits); }

 private:
  int block_tokens(int num_places) const { return num_places + (file_.fills_anchor ? 0 : 1); }
  int place_of(int row) const;  // in the last blocks' pass

  void remember_lengths();
  void put_back(int slot);

  BlockFile file_;
  int row_size_;
  int num_places_ = 0;       // of the last blocks
  std::vector<int> before_;  // lengths of the slots before the running pass
  // Scratch of read(): llama.cpp's batch of rows.
  int positions_per_row_;
  std::vector<std::int32_t> positions_, slots_, ones_;
  std::vector<std::int32_t*> slot_lists_;
  std::vector<std::int8_t> wants_output_;
  // Scratch of fill().
  std::vector<Token> tokens_;
  std::vector<PassInput> inputs_;
};

}  // namespace specdec
