// Trees of drafts from a draft model, in breadth: the nodes of a level share one pass.
//
// A slot is a place for a further child of a node whose row is known. Its value is the estimated probability that the
// target gets there: the chances of the nodes above, times those that the siblings before it are rejected, times its
// own. Slots are filled in the order of their values, which depend on the rows and on the tokens drawn before, never on
// the token that the slot itself gets (sampling/verify_tree.h). With greedy decoding and Drafting::argmax the children
// of a node are its likeliest tokens, with Verification::invariant those that its noise prefers, else they are drawn
// without replacement.
#pragma once

#include <array>
#include <vector>

#include "sampling/distribution.h"
#include "speculative/auto/acceptance_model.h"
#include "speculative/language_model.h"
#include "speculative/proposer.h"

namespace specdec {

constexpr int widest_level = 16;  // nodes of a level that the draft reads; those of the highest values

class TreeDrafter {
 public:
  // The draft must read trees. vocabulary_size: the smaller of both models'.
  TreeDrafter(LanguageModel& draft, int vocabulary_size);

  // Grows a tree for each sequence. The draft's last pass computed the rows after their committed tokens, in order.
  void grow(const std::vector<ProposalRequest>& requests, Stats& stats);

  // The sequence's tree was verified: learns from it, and keeps what the draft has read of the path.
  void keep_path(const Sequence& sequence, const std::vector<int>& path);

 private:
  struct Node {
    int depth;
    double reach;       // estimated probability that it is accepted
    int rank;           // among its siblings
    double confidence;  // of the slot
  };
  struct Row {                     // of a node, or of the committed text
    std::vector<Token> likeliest;  // the children in order, unless they are drawn
    int num_children = 0;
    double reach = 1.0, rejected = 1.0;  // probability of the node; that all children so far are rejected
    double left = 1.0;                   // the row's probability of the tokens that are no children yet
  };
  struct Slot {
    double value, chance, confidence;
    int node;
    bool operator<(const Slot& other) const { return value < other.value; }
  };
  struct Growth {  // of one sequence's tree
    ProposalRequest request{};
    int size = 0;         // nodes wanted
    bool adapts = false;  // to costs; else it gets `size` nodes
    std::vector<Node> nodes;
    std::vector<Row> rows;      // [1 + node]
    std::vector<Slot> slots;    // a heap
    std::vector<int> frontier;  // nodes to read next, all of this depth
    int depth = 0;
    std::vector<int> read;     // nodes that the draft has read
    std::vector<int> parents;  // of these, by their places in `read`
  };

  Growth& growth(int slot);
  void add_row(Growth& g, int node, const float* logits);
  void read_row(Growth& g, int node, const float* logits);
  void add_slot(Growth& g, int node);
  Token take_token(Growth& g, int node);
  void fill(Growth& g, bool is_growing);
  bool reads_on(const Growth& g) const;
  bool read_level(Stats& stats);
  AcceptanceModel& model_of(const Sequence& sequence, int rank);

  LanguageModel& draft_;
  int vocabulary_size_;
  std::vector<Growth> growths_;  // by slot
  // Of first, second and further children.
  std::array<AcceptanceModel, 3> likeliest_, drawn_;
  std::vector<Growth*> growing_;
  std::vector<PassInput> inputs_;
  std::vector<std::vector<Token>> tokens_;  // of inputs_
  sampling::Distribution row_;
};

}  // namespace specdec
