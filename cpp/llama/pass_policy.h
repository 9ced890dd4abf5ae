// Decides how the inputs of decode() become passes of llama.cpp: which inputs share a pass, where an input is cut, and
// how much padding a pass has. It knows numbers of tokens only, no model.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "llama/pass_shape.h"
#include "speculative/language_model.h"

namespace specdec {

struct PassPart {
  int slot;
  const Token* tokens;
  int num_tokens;
  int num_rows;                               // of logits, for the last tokens
  int num_padding;                            // tokens after its own, which are removed from the cache after the pass;
                                              // behind a tree, nodes that no other sees
  const std::vector<int>* parents = nullptr;  // as in PassInput
  const Picture* picture = nullptr;           // likewise; from its row `first_row` on
  int first_row = 0;
};

struct PlannedPass {
  std::vector<PassPart> parts;  // slots ascending
  bool makes_all_rows = false;  // of logits, for padding too, so that all passes of a width have the same graph
  // Of the rows that the pass makes, those that are wanted: first_row .. end_row - 1.
  int first_row = 0, end_row = 0;
};

// Passes whose memory is used again for the next ones.
class PlannedPasses {
 public:
  void clear() { size_ = 0; }
  PlannedPass& add() {
    if (size_ == passes_.size()) passes_.emplace_back();
    PlannedPass& pass = passes_[size_++];
    pass.parts.clear();
    pass.makes_all_rows = false;
    pass.first_row = pass.end_row = 0;
    return pass;
  }
  std::size_t size() const { return size_; }
  const PlannedPass& front() const { return passes_.front(); }
  const PlannedPass* begin() const { return passes_.data(); }
  const PlannedPass* end() const { return passes_.data() + size_; }

 private:
  std::vector<PlannedPass> passes_;
  std::size_t size_ = 0;
};

class PassPolicy {
 public:
  struct Limits {
    int batch_size = 0;      // tokens per pass
    int context_length = 0;  // tokens per slot of the cache
    bool takes_back = true;  // cells can be removed after a pass; false: a recurrent state can only be restored
    bool allows_padding = true;
    bool pads_trees = false;  // also where a slot holds nodes of a tree, or gets some
  };
  struct Slot {
    Cell next;          // of the token that it reads next
    Cell prompt_end;    // after the prompt's last token
    int num_nodes = 0;  // of a tree, after the last token
  };

  explicit PassPolicy(const Limits& limits) : limits_(limits) {}

  // From now on passes have a shape.
  void use(const PassShape& shape) { shape_ = shape; }
  const std::optional<PassShape>& shape() const { return shape_; }

  // inputs: slots ascending. slots: [num_slots]. The passes are valid until the next call.
  const PlannedPasses& plan(const std::vector<PassInput>& inputs, const std::vector<Slot>& slots);

 private:
  using Inputs = std::vector<PassInput>::const_iterator;

  void plan_picture(const PassInput& input);
  void plan_one(const std::vector<PassInput>& inputs, const std::vector<Slot>& slots);
  bool is_worth_padding(const std::vector<PassInput>& inputs, const std::vector<Slot>& slots, int width);
  void plan_pieces(const std::vector<PassInput>& inputs, const std::vector<Slot>& slots);
  std::vector<PassShape::Piece> pieces_of(const PassInput& input, const Slot& slot) const;
  Inputs shared_pass(Inputs first, Inputs end, const std::vector<Slot>& slots) const;

  const Limits limits_;
  std::optional<PassShape> shape_;
  PlannedPasses passes_;
  std::vector<int> left_;  // scratch of is_worth_padding()
};

}  // namespace specdec
