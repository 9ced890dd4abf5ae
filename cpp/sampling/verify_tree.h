// Verification of drafts that branch, without replacement among siblings. The output has the target's distribution.
//
// Traversal verification: Weng, Mei, Qiu, Chen, Liu, Tian and Shi, arXiv:2505.12398; along a chain it is block
// verification (verify_block.h). A node has a weight, the probability with which it or a node below it has to be kept,
// and a row, the distribution of what has to follow then:
// - The root has weight 1 and the target's row. A child x that was drawn from `draft` has the weight
//   min(1, weight * target(x) / draft(x)) and the target's row after it.
// - A node without children is kept with its weight, and the token after it drawn from its row.
// - Where the first child and all below it are rejected, excess = max(0, weight * target - draft) is what is still
//   owed: with rest = sum of excess, the weight becomes rest / (rest + 1 - weight), the row excess / rest. The next
//   child was drawn from `draft` without the tokens of the children before it.
// Proof by induction from the leaves: x follows the node with probability draft(x) * min(1, weight * target(x) /
// draft(x)) + excess(x) = weight * target(x). It needs of a child only that it was drawn from its distribution, so
// whether there is one may depend on everything drawn before it, and on its distribution. A chosen child (a copy of
// text) is its own one-hot distribution; those drawn after it are drawn without it, like after any other sibling.
//
// With `jointly` false, Miao et al. (SpecInfer), arXiv:2305.09781, algorithm 2: a child is accepted or rejected before
// those below it are looked at. Along a chain it is token verification.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/index.h"
#include "sampling/distribution.h"

namespace specdec::sampling {

// Node i follows node parents[i] < i, or what is committed (-1). Siblings stand in the order in which they were drawn,
// behind those that were chosen.
struct DraftTree {
  std::vector<Token> tokens;
  std::vector<int> parents;
  std::vector<bool> is_drawn;  // false: the token was chosen

  int size() const { return static_cast<int>(tokens.size()); }
  bool has_child(int parent, Token token) const {
    for (std::size_t i = idx(parent + 1); i < tokens.size(); ++i) {
      if (parents[i] == parent && tokens[i] == token) return true;
    }
    return false;
  }
  void clear() {
    tokens.clear();
    parents.clear();
    is_drawn.clear();
  }
  int add(int parent, Token token, bool drawn = true) {
    parents.push_back(parent);
    tokens.push_back(token);
    is_drawn.push_back(drawn);
    return size() - 1;
  }
};

// The nodes from the root to `last`, ascending.
std::vector<int> path_to(const DraftTree& tree, int last);

struct TreeVerdict {
  int last;  // node accepted last; -1: none
  Token next_token;
};

// The distributions of the nodes of a path, kept to be used again.
struct TreeScratch {
  struct Level {
    Distribution target, draft, excess;
  };
  std::vector<Level> levels;
};

namespace detail {

template <class DraftRow, class TargetRow, class Decide, class Pick>
struct TreeVerification {
  const DraftTree& tree;
  DraftRow& draft_row;
  TargetRow& target_row;
  Decide& decide;
  Pick& pick;
  bool jointly;
  TreeScratch& scratch;

  // What the node's first drawn child comes from: its row without the chosen ones.
  void set_row(Distribution& draft, int node, int child) {
    draft = draft_row(node);
    for (int chosen = node + 1; chosen < child; ++chosen) {
      if (tree.parents[idx(chosen)] == node) remove_token(draft, tree.tokens[idx(chosen)]);
    }
  }

  bool keep(int node, double weight, std::size_t depth, TreeVerdict& verdict) {
    if (scratch.levels.size() <= depth) scratch.levels.resize(depth + 1);
    scratch.levels[depth].target = target_row(node);
    bool has_row = false;
    for (int child = node + 1; child < tree.size(); ++child) {
      if (tree.parents[idx(child)] != node) continue;
      const Token token = tree.tokens[idx(child)];
      {
        TreeScratch::Level& level = scratch.levels[depth];
        if (!tree.is_drawn[idx(child)]) level.draft.set_one_hot(token);
        else if (!has_row) set_row(level.draft, node, child);
        has_row = tree.is_drawn[idx(child)];
        const double ratio = weight * level.target.probability(token) / level.draft.probability(token);
        double of_child = std::min(ratio, 1.0);  // in this order NaN stays NaN, and NaN is never more than 0
        if (!jointly && of_child > 0.0) of_child = decide(child, of_child) ? 1.0 : 0.0;
        if (of_child > 0.0 && keep(child, of_child, depth + 1, verdict)) return true;
      }
      TreeScratch::Level& level = scratch.levels[depth];  // the deeper levels may have moved it
      const double rest = set_excess(level.target, weight, level.draft, level.excess);
      if (node >= 0 && jointly) weight = rest > 0.0 ? rest / (rest + (1.0 - weight)) : 0.0;
      if (!level.excess.tokens.empty()) {
        std::swap(level.target, level.excess);
        normalise(level.target, rest, level.excess);
      }
      if (weight <= 0.0) return false;
      if (has_row) remove_token(level.draft, token);
    }
    if (node >= 0 && jointly && !decide(node, weight)) return false;
    verdict = {node, pick(scratch.levels[depth].target)};
    return true;
  }
};

}  // namespace detail

// target_row(node) -> const Distribution&: the target's distribution after a node, or after what is committed (-1). At
// most once per node, parents first; valid until the next call. draft_row(node) -> const Distribution&: what the node's
// drawn children come from, with the tokens of all children; asked if there are any. decide(node, probability) -> bool:
// true with that probability; at most once per node. pick(distribution) -> Token: drawn from it; once.
template <class DraftRow, class TargetRow, class Decide, class Pick>
TreeVerdict verify_tree(const DraftTree& tree, DraftRow&& draft_row, TargetRow&& target_row, Decide&& decide,
                        Pick&& pick, bool jointly, TreeScratch& scratch) {
  TreeVerdict verdict{-1, 0};
  detail::TreeVerification<DraftRow, TargetRow, Decide, Pick>{tree, draft_row, target_row, decide,
                                                              pick, jointly,   scratch}
      .keep(-1, 1.0, 0, verdict);
  return verdict;
}

// Where the target's choice after each node is determined: follows it as long as a child has it. choice(node) -> Token.
template <class Choice>
TreeVerdict follow_tree(const DraftTree& tree, Choice&& choice) {
  TreeVerdict verdict{-1, choice(-1)};
  for (int node = 0; node < tree.size(); ++node) {
    const bool is_next = tree.parents[idx(node)] == verdict.last && tree.tokens[idx(node)] == verdict.next_token;
    if (is_next) verdict = {node, choice(node)};
  }
  return verdict;
}

}  // namespace specdec::sampling
