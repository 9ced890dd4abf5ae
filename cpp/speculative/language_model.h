// The language model as the speculative loop uses it: append tokens, read logits, roll back.
#pragma once

#include <optional>
#include <vector>

#include "base/token.h"
#include "speculative/text.h"

namespace specdec {

// Tokens to append to one slot's KV cache. Rows of logits are computed for the last num_rows of them.
struct PassInput {
  int slot;  // the sequence's place in the cache, 0 .. num_slots - 1
  const Token* tokens;
  int num_tokens;
  int num_rows;
  // A tree's nodes: each node's parent, an earlier one, or -1: the last token before the tree. Level by level, at most
  // max_tree_nodes. The input ends with those that the slot has not read yet. Null: no tree.
  const std::vector<int>* parents = nullptr;
  // Its rows are read instead of tokens. The only input of a pass, for models that read pictures; for others its places
  // are tokens in_picture, of which they count the places only.
  const Picture* picture = nullptr;
};

constexpr int max_tree_nodes = 64;

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual int vocabulary_size() const = 0;
  virtual int context_length() const = 0;  // tokens per slot of the cache
  // One past the last position that the slot has room for.
  virtual int end(int /*slot*/) const { return context_length(); }
  virtual int batch_size() const = 0;    // tokens per pass, over all sequences
  virtual int row_capacity() const = 0;  // rows of logits per pass
  virtual bool is_end_of_generation(Token token) const = 0;

  // One pass over all inputs, slots ascending. Afterwards row r of logits (counted over the inputs in order) is valid
  // until the next pass. Throws ModelError or Cancelled. After an exception the caches of these slots hold what they
  // held before, or are empty if the model cannot truncate.
  virtual void decode(const std::vector<PassInput>& inputs) = 0;
  virtual const float* logits(int row) const = 0;  // [vocabulary_size]
  virtual int pass_size() const = 0;               // tokens in the last pass, padding included

  virtual int length(int slot) const = 0;  // tokens in the cache
  // Drops cached tokens from `length` on. The length is absolute, so repeating the call is harmless. A model with
  // recurrent layers may drop more (see checkpoint()); length() tells.
  virtual void truncate(int slot, int length) = 0;
  // How many of the first `length` cached tokens have the same cached state as a pass over another text that begins
  // with them would compute.
  virtual int reusable(int /*slot*/, int length) const { return length; }
  // Prompts must be read up to a multiple of this many tokens, or to their end. expect_prompt() announces one: the
  // first `length` tokens of a text.
  virtual int prompt_piece() const { return 1; }
  virtual void expect_prompt(int /*slot*/, int /*length*/) {}
  // Announces that truncate() may go back to what is cached now, after one pass of pass_tokens tokens or after several
  // passes (0). A model that cannot always truncate saves what it needs for that.
  virtual void checkpoint(int /*slot*/, int /*pass_tokens*/) {}
  // Announces that the next cycle of this slot has at most `count` drafts.
  virtual void expect_drafts(int /*slot*/, int /*count*/) {}
  // Whether an earlier pass has computed the row after the first `length` tokens, so that decode() needs no pass for
  // it.
  virtual bool has_row(int /*slot*/, int /*length*/) const { return false; }
  // For a row of the last pass: the model's own estimate of the probability that a draft from it is accepted.
  virtual std::optional<double> confidence(int /*row*/) const { return std::nullopt; }
  // Whether passes may read trees. length() does not count nodes, and truncate() drops all of them.
  virtual bool reads_trees() const { return false; }
  // Of the nodes that the slot has read, keeps a path from the root, ascending, as if nothing else had been read.
  virtual void keep_path(int /*slot*/, const std::vector<int>& /*nodes*/) {}
  // How many more nodes a slot may read on a level (0: the children of the committed text), after num_nodes of a tree.
  virtual int room_for_nodes(int slot, int /*level*/, int num_nodes) const {
    return end(slot) - length(slot) - num_nodes;
  }
  // Whether one pass computes the rows of all places; then reading nodes takes none.
  virtual bool fills_blocks() const { return false; }
  // Whether decode() takes the rows of pictures.
  virtual bool reads_pictures() const { return false; }
  // Makes the cache of slot `to` a copy of the cache of slot `from`.
  virtual void copy(int from, int to) = 0;
};

}  // namespace specdec
