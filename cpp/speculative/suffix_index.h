// Counts what followed every substring of a text, up to a length, to tell which tokens are likely to follow its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "base/token.h"
#include "speculative/text_index.h"

namespace specdec {

// A trie of the substrings of at most max_depth tokens. A substring has a node if it is one token, or one token longer
// than a substring that occurs twice or more. So a node that occurs once is a leaf: its continuation is read from the
// text.
//
// Among the continuations of a node, the best is the one that occurs most often; of several, the one whose first
// occurrence is the latest. The state depends only on the text, not on the calls of push() and truncate() that led to
// it.
//
// Time: push() visits at most max_depth nodes, truncate() about twice as many per token dropped. Memory: 90 to 330
// bytes per token of source code and English (bench/CLOSED.md), at most 1500, for a text of two equal halves.
class SuffixIndex final : public TextIndex {
 public:
  SuffixIndex();

  // If there is no memory for it, the index is empty afterwards.
  void push(Token token);
  // Drops the tokens from `length` on, or all of them, as above.
  void truncate(int length);
  void clear();
  int length() const { return static_cast<int>(text_.size()); }

  // A match is the node of the string, or the leaf on the path to it. The occurrence at the end of the text has no
  // continuation.
  Match find(const Token* tokens, int count) const override;
  Continuation best(const Match& match) const override;

  std::size_t bytes() const;
  std::size_t num_nodes() const { return nodes_.size() - free_.size(); }

 private:
  using Id = std::int32_t;
  static constexpr Id none = -1, root = 0;

  struct Node {
    Id parent;
    Token token;            // of the edge from the parent
    std::int32_t count;     // occurrences
    std::int32_t position;  // where the first occurrence starts
    Id best, first_child;   // none: a leaf
    Id next, previous;      // siblings
  };
  Node& node(Id id) { return nodes_[idx(id)]; }
  const Node& node(Id id) const { return nodes_[idx(id)]; }
  Token text(int position) const { return text_[idx(position)]; }

  template <class Change>
  void or_clear(Change&& change);
  void add(Token token);
  Id child(Id parent, Token token) const;
  Id add_child(Id parent, Token token, int position);
  void remove(Id id);
  void remove_occurrence(int start, int kept_depth);
  void find_active();
  Id descend(const Token* tokens, int count, int* depth) const;
  bool occurs_with_continuation(const Token* tokens, int count, Id* found) const;
  bool is_better(Id a, Id b) const;

  // Edges (parent, token) -> child: open addressing with linear probing; 0 marks an empty place, because the root is
  // nobody's child.
  std::size_t place_of(Id parent, Token token) const;
  void add_edge(Id id);
  void remove_edge(Id id);
  void grow_edges();

  std::vector<Token> text_;
  std::vector<Node> nodes_;
  std::vector<Id> free_;
  std::vector<Id> edges_;
  int edge_shift_ = 0;
  std::vector<Id> active_;  // [i] the node of the last i tokens, as long as there is one
};

}  // namespace specdec
