// Trees of drafts from a draft model, in breadth: the nodes of a level share one pass.
//
// A slot is a place for a further child of a node whose row is known. Its value is the estimated probability that the
// target gets there: the chances of the nodes above, times those that the siblings before it are rejected, times its
// own. Slots are filled in the order of their values. With greedy decoding and Drafting::argmax the children of a node
// are its likeliest tokens, with Verification::invariant those that its noise prefers; what the target accepts then
// does not depend on the tree, so a value may depend on the slot's own token, and on how far the noise prefers it.
// Otherwise children are drawn without replacement, and values depend on the rows and on the tokens drawn before, never
// on the token that the slot itself gets (sampling/verify_tree.h).
//
// Copies of text are a path of the tree, if there are any: each is the first child of its parent.
#pragma once

#include <array>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/gumbel_max.h"
#include "speculative/auto/acceptance_model.h"
#include "speculative/language_model.h"
#include "speculative/proposer.h"

namespace specdec {

constexpr int widest_level = 16;  // nodes of a level that the draft reads; those of the highest values

class TreeDrafter {
 public:
  // The draft must read trees. vocabulary_size: the smaller of both models'.
  TreeDrafter(LanguageModel& draft, int vocabulary_size);

  // Whether a tree that adapts may gain more than a chain of these copies: the draft's passes cost time, and a place
  // beside a copy that is nearly certain gains nothing. num_unread: tokens that the draft has not read.
  bool adds_to(const ProposalRequest& request, const std::vector<Copy>& copies, int num_unread);

  // Grows a tree for each sequence, with its copies. The draft's last pass computed the rows after their committed
  // tokens, in order.
  void grow(const std::vector<ProposalRequest>& requests, const std::vector<std::vector<Copy>>& copies, Stats& stats);

  // The sequence's tree was verified: learns from it, and keeps what the draft has read of the path.
  void keep_path(const Sequence& sequence, const std::vector<int>& path);

 private:
  // What a node's chance is learnt from: its rank among the likeliest tokens, among those that the noise prefers, among
  // drawn ones, or of a copy, what the draft's row says of it.
  enum Kind : std::size_t {
    likeliest_first,
    likeliest_second,
    likeliest_further,
    preferred_first,
    preferred_second,
    preferred_further,
    drawn_first,
    drawn_second,
    drawn_further,
    copy_agreed,
    copy_disputed,
    copy_unread,
    num_kinds
  };
  struct Node {
    int depth;
    double reach;  // estimated probability that it is accepted
    Kind kind;
    double confidence;  // of the slot
    double share;       // of a drawn token in the row that it was drawn from
  };
  struct Row {                                    // of a node, or of the committed text
    std::vector<sampling::Preference> preferred;  // the children in order, unless they are drawn
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
    int size = 0;           // nodes wanted
    bool adapts = false;    // to costs; else it gets `size` nodes
    double accepted = 0.0;  // nodes, as expected
    double gained = 0.0;    // by the level that was read last: accepted nodes, less what they have to be worth
    std::vector<Node> nodes;
    std::vector<Row> rows;    // [1 + node]
    std::vector<Slot> slots;  // a heap
    std::vector<Copy> copies;
    std::vector<int> copied;    // their nodes, as far as they are in the tree
    std::vector<int> frontier;  // nodes to read next, all of this depth
    int depth = 0;
    std::vector<int> read;     // nodes that the draft has read
    std::vector<int> parents;  // of these, by their places in `read`
  };

  Growth& growth(int slot);
  DraftPrice price(const Growth& g, std::size_t depth = 0, double reach = 0.0);
  double chance_of(const Growth& g, Kind kind, const Copy& copy) const;
  void add_node(Growth& g, int parent, Token token, const Node& node, DraftOrigin origin);
  bool add_copy(Growth& g, Kind kind);
  void add_unread_copies(Growth& g);
  void read_next_copy(Growth& g, const std::vector<int>& level);
  bool goes_on(const Growth& g, Token token) const;
  void put_copy_first(Growth& g, int node);
  void add_row(Growth& g, int node, const float* logits);
  void read_row(Growth& g, int node, const float* logits);
  void add_slot(Growth& g, int node);
  Token take_token(Growth& g, int node);
  void fill(Growth& g, bool is_growing);
  int num_worth_reading(const Growth& g, int most);
  bool read_level(Stats& stats);
  static Kind kind_of(const Sequence& sequence, int rank);
  static bool is_drawn(Kind kind) { return kind >= drawn_first && kind <= drawn_further; }

  LanguageModel& draft_;
  int vocabulary_size_;
  std::vector<Growth> growths_;                              // by slot
  std::array<AcceptanceModel, num_kinds> chances_;           // of slots
  std::array<AcceptanceModel, num_kinds> chances_of_drawn_;  // of the tokens that were drawn for them
  // What reading a level gained so far, as a share of the probability that the text gets to it.
  struct Gain {
    double gained = 1.2, reach = 2.0;
    double mean() const { return gained / reach; }
    void add(double more, double of) { gained = 0.95 * gained + more, reach = 0.95 * reach + of; }
  } gained_;
  double node_seconds_ = 0.0;  // of a node's row, if no pass is needed for it
  std::vector<Growth*> growing_;
  std::vector<double> next_;  // chances
  std::vector<PassInput> inputs_;
  std::vector<std::vector<Token>> tokens_;  // of inputs_
  sampling::Distribution row_;
};

}  // namespace specdec
