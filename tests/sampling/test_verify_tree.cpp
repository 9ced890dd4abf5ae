// Verification of trees: its exact law by enumeration of every outcome, for every tree of up to seven nodes, with
// controls that must fail.
#include <functional>
#include <vector>

#include "check.h"
#include "enumerate.h"
#include "random_tables.h"
#include "sampling/verify_block.h"
#include "sampling/verify_token.h"
#include "sampling/verify_tree.h"

using namespace specdec::sampling;
using namespace enumerate;
using specdec::idx;

namespace {

constexpr double tolerance = 1e-12;

// Every outcome of a function that makes random choices, one run for each.
class Choices {
 public:
  // run(choices) is called once per outcome; weight() is then its probability.
  template <class Run>
  static void enumerate(Run&& run) {
    Choices choices;
    do {
      choices.at_ = 0;
      choices.weight_ = 1.0;
      run(choices);
    } while (choices.advance());
  }
  // An index with these probabilities; those of probability 0 are left out.
  std::size_t choose(const std::vector<double>& probabilities) {
    if (at_ == made_.size()) made_.push_back({0, {}});
    Made& made = made_[at_++];
    made.probabilities = probabilities;
    while (made.probabilities[made.index] <= 0.0) ++made.index;
    weight_ *= made.probabilities[made.index];
    return made.index;
  }
  bool decide(double probability) { return choose({probability, 1.0 - probability}) == 0; }
  Token pick(const Distribution& row) { return row.tokens[choose(row.probs)]; }
  double weight() const { return weight_; }

 private:
  struct Made {
    std::size_t index;
    std::vector<double> probabilities;
  };
  bool advance() {
    while (!made_.empty()) {
      Made& last = made_.back();
      for (++last.index; last.index < last.probabilities.size(); ++last.index) {
        if (last.probabilities[last.index] > 0.0) return true;
      }
      made_.pop_back();
    }
    return false;
  }
  std::vector<Made> made_;
  std::size_t at_ = 0;
  double weight_ = 1.0;
};

using Parents = std::vector<int>;

Sequence text_of(const DraftTree& tree, int node) {
  Sequence text;
  for (const int i : path_to(tree, node)) text.push_back(tree.tokens[idx(i)]);
  return text;
}

Distribution without(Distribution row, const std::vector<Token>& tokens) {
  for (const Token token : tokens) remove_token(row, token);
  return row;
}

std::vector<Token> siblings_before(const DraftTree& tree, int node, int parent) {
  std::vector<Token> tokens;
  for (int i = 0; i < node; ++i) {
    if (tree.parents[idx(i)] == parent) tokens.push_back(tree.tokens[idx(i)]);
  }
  return tokens;
}

// Draws a node's tokens, if its parent has any left, and adds it. Nodes without a token are left out, and those below.
// copies: bit i of the number is set if node i is a copy, token `depth % 2`, unless its parent has a drawn child
// already.
void draw_tree(const Parents& parents, const Model& draft, Choices& choices, DraftTree& tree, bool replaces = false,
               unsigned copies = 0) {
  std::vector<int> nodes;
  for (const int parent : parents) {
    const int at = parent < 0 ? -1 : nodes[idx(parent)];
    nodes.push_back(-2);
    if (at == -2) continue;
    const Distribution row = draft(text_of(tree, at)),
                       rest = replaces ? row : without(row, siblings_before(tree, tree.size(), at));
    const Token copy = static_cast<Token>(text_of(tree, at).size() % 2);
    const bool is_copy = (copies >> (nodes.size() - 1) & 1u) != 0 && siblings_before(tree, tree.size(), at).empty();
    if (!is_copy && rest.tokens.empty()) continue;
    nodes.back() = is_copy ? tree.add(at, copy, false) : tree.add(at, choices.pick(rest));
  }
}

enum class Fault { none, replaced, siblings_reversed, other_row, copies_as_drawn };

// The law of what one cycle emits.
Law law_of_tree(const std::function<void(Choices&, DraftTree&)>& make, const Model& draft, const Model& target,
                bool jointly, Fault fault = Fault::none) {
  Law law;
  TreeScratch scratch;
  Choices::enumerate([&](Choices& choices) {
    DraftTree tree;
    make(choices, tree);
    Distribution row, drafted;
    const auto draft_row = [&](int node) -> const Distribution& {
      return drafted = fault == Fault::other_row ? target(text_of(tree, node)) : draft(text_of(tree, node));
    };
    const auto target_row = [&](int node) -> const Distribution& { return row = target(text_of(tree, node)); };
    const auto decide = [&](int, double probability) { return choices.decide(probability); };
    const auto pick = [&](const Distribution& from) { return choices.pick(from); };
    if (fault == Fault::siblings_reversed) std::reverse(tree.tokens.begin(), tree.tokens.end());
    const TreeVerdict verdict = verify_tree(tree, draft_row, target_row, decide, pick, jointly, scratch);
    law[followed_by(text_of(tree, verdict.last), verdict.next_token)] += choices.weight();
  });
  return law;
}

double error_of(const Law& law, const Model& target, std::size_t length) {
  return distance(extended(law, target, length), law_of(target, length));
}

double error_of_tree(const Parents& parents, const Model& draft, const Model& target, bool jointly,
                     Fault fault = Fault::none, unsigned copies = 0) {
  const auto make = [&](Choices& choices, DraftTree& tree) {
    draw_tree(parents, draft, choices, tree, fault == Fault::replaced, copies);
    if (fault == Fault::copies_as_drawn) tree.is_drawn.assign(tree.is_drawn.size(), true);
  };
  std::vector<std::size_t> depths;
  std::size_t deepest = 0;
  for (const int parent : parents) {
    depths.push_back(parent < 0 ? 1 : depths[idx(parent)] + 1);
    deepest = std::max(deepest, depths.back());
  }
  return error_of(law_of_tree(make, draft, target, jointly, fault), target, deepest + 1);
}

// All trees of `size` nodes of which none has more than `most` children: parents ascending, so that siblings follow one
// another as they are drawn level by level.
std::vector<Parents> trees_of(int size, int most) {
  std::vector<Parents> trees{{}};
  for (int node = 0; node < size; ++node) {
    std::vector<Parents> longer;
    for (const Parents& tree : trees) {
      for (int parent = tree.empty() ? -1 : tree.back(); parent < node; ++parent) {
        if (std::count(tree.begin(), tree.end(), parent) >= most) continue;
        longer.push_back(tree);
        longer.back().push_back(parent);
      }
    }
    trees = longer;
  }
  return trees;
}

}  // namespace

TEST(there_are_as_many_trees_as_there_have_to_be) {  // Catalan's numbers
  CHECK(trees_of(3, 7).size() == 5 && trees_of(5, 7).size() == 42 && trees_of(7, 7).size() == 429);
}

// With as many tokens as a node has children, or more where there are few nodes.
TEST(exact_for_every_tree) {
  for (const bool jointly : {true, false}) {
    for (int size = 0; size <= 7; ++size) {
      for (const Parents& tree : trees_of(size, 7)) {
        int vocabulary = size <= 4 ? 4 : 2;
        for (const int parent : tree)
          vocabulary = std::max(vocabulary, static_cast<int>(std::count(tree.begin(), tree.end(), parent)));
        CHECK_NEAR(error_of_tree(tree, full_draft(1, vocabulary), full_target(1, vocabulary), jointly), 0.0, tolerance);
      }
    }
  }
}

TEST(exact_with_zeros_and_equal_tables) {
  for (const bool jointly : {true, false}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      for (const Parents& tree : trees_of(4, 3)) {
        for (const Family draft : {sparse_draft, odd_draft, one_hot_draft, full_target}) {
          for (const Family target : {full_target, sparse_target, even_target, one_hot_target})
            CHECK_NEAR(error_of_tree(tree, draft(seed, 3), target(seed, 3), jointly), 0.0, tolerance);
        }
      }
    }
  }
}

// More tokens than children.
TEST(exact_for_many_siblings) {
  for (const bool jointly : {true, false}) {
    for (const Parents& tree : {Parents{-1, -1, -1, -1, -1}, Parents{-1, -1, -1, -1, 0}, Parents{-1, 0, 0, 0, 0}})
      CHECK_NEAR(error_of_tree(tree, full_draft(3, 5), full_target(3, 5), jointly), 0.0, tolerance);
  }
}

// Tokens that were chosen instead of drawn are their own one-hot distributions.
TEST(exact_for_chosen_tokens) {
  const Model target = full_target(2, 3);
  const auto likeliest = [&](Choices&, DraftTree& tree) {
    for (const int parent : {-1, -1, 0, 0, 1, 2}) {
      const auto before = siblings_before(tree, tree.size(), parent);
      tree.add(parent, most_likely(without(full_draft(2, 3)(text_of(tree, parent)), before)), false);
    }
  };
  for (const bool jointly : {true, false})
    CHECK_NEAR(error_of(law_of_tree(likeliest, {}, target, jointly), target, 7), 0.0, tolerance);
}

// A copy of text is the first child of its parent; the others are drawn without it.
TEST(exact_for_copies_among_drawn_tokens) {
  for (const bool jointly : {true, false}) {
    for (int size = 1; size <= 4; ++size) {
      for (const Parents& tree : trees_of(size, 3)) {
        for (unsigned copies = 1; copies < 1u << size; ++copies)
          CHECK_NEAR(error_of_tree(tree, full_draft(4, 3), full_target(4, 3), jointly, Fault::none, copies), 0.0,
                     tolerance);
      }
    }
  }
  const Parents tree{-1, -1, 0};
  CHECK(error_of_tree(tree, full_draft(4, 3), full_target(4, 3), true, Fault::copies_as_drawn, 1) > 1e-3);
  CHECK(error_of_tree(tree, full_draft(4, 3), full_target(4, 3), true, Fault::replaced, 1) > 1e-3);
}

// Whether there is a further node may depend on everything drawn before it and on its distribution.
TEST(exact_for_trees_that_grow_as_they_are_drawn) {
  const Model draft = full_draft(5, 3), target = full_target(5, 3);
  const auto grow = [&](Choices& choices, DraftTree& tree) {
    draw_tree({-1}, draft, choices, tree);
    const auto add = [&](int parent) {
      tree.add(parent, choices.pick(without(draft(text_of(tree, parent)), siblings_before(tree, tree.size(), parent))));
    };
    if (tree.tokens[0] != 1) add(-1);
    if (tree.size() == 2 && tree.tokens[1] == 1) add(1);
    if (draft(text_of(tree, 0)).probability(2) > 0.2) add(0);
    if (tree.tokens.back() == 2) add(-1);
    add(0);
  };
  for (const bool jointly : {true, false})
    CHECK_NEAR(error_of(law_of_tree(grow, draft, target, jointly), target, 6), 0.0, tolerance);
}

TEST(controls_must_fail) {
  for (const bool jointly : {true, false}) {
    const Model draft = full_draft(1, 3), target = full_target(1, 3);
    CHECK(error_of_tree({-1, -1, 0}, draft, target, jointly, Fault::replaced) > 1e-3);
    CHECK(error_of_tree({-1, -1}, draft, target, jointly, Fault::siblings_reversed) > 1e-3);
    CHECK(error_of_tree({-1, -1, 0}, draft, target, jointly, Fault::other_row) > 1e-3);
    const auto withdrawn = [&](Choices& choices, DraftTree& tree) {
      draw_tree({-1, -1}, draft, choices, tree);
      if (tree.tokens[1] != 0) return;
      tree.tokens.pop_back();
      tree.parents.pop_back();
    };
    CHECK(error_of(law_of_tree(withdrawn, draft, target, jointly), target, 3) > 1e-3);
  }
}

// The same random numbers give the same verdicts as verification of a chain.
TEST(a_chain_is_block_or_token_verification) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Model draft = seed % 2 == 0 ? full_draft(seed, 4) : sparse_draft(seed, 4), target = full_target(seed, 4);
    const PhiloxUniforms random(seed, 7);
    DraftTree tree;
    std::vector<Distribution> draft_probs, target_probs;
    std::vector<double> uniforms;
    for (int i = 0; i < 4; ++i) {
      draft_probs.push_back(draft(text_of(tree, i - 1)));
      target_probs.push_back(target(text_of(tree, i - 1)));
      tree.add(i - 1, draw(draft_probs.back(), random.uniform(i, 0, Purpose::draft)));
      uniforms.push_back(random.uniform(i, 0, Purpose::accept));
    }
    target_probs.push_back(target(text_of(tree, 3)));
    uniforms.push_back(random.uniform(0, 0, Purpose::next));
    for (const bool jointly : {true, false}) {
      const Verdict expected = jointly ? verify_block(tree.tokens, draft_probs, target_probs, uniforms)
                                       : verify_token(tree.tokens, draft_probs, target_probs, uniforms);
      TreeScratch scratch;
      const TreeVerdict found = verify_tree(
          tree, [&](int node) -> const Distribution& { return draft_probs[idx(node + 1)]; },
          [&](int node) -> const Distribution& { return target_probs[idx(node + 1)]; },
          [&](int node, double probability) { return uniforms[idx(node)] < probability; },
          [&](const Distribution& row) { return draw(row, uniforms.back()); }, jointly, scratch);
      CHECK(found.last + 1 == expected.num_accepted && found.next_token == expected.next_token);
    }
  }
}

// On average; not for each tree, unlike along a chain.
TEST(keeps_more_than_one_by_one) {
  double total = 0.0, least = 0.0;
  for (const Parents& parents : trees_of(4, 3)) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Model draft = full_draft(seed, 3), target = full_target(seed, 3);
      const auto tokens = [&](bool jointly) {
        const auto make = [&](Choices& choices, DraftTree& tree) { draw_tree(parents, draft, choices, tree); };
        double mean = 0.0;
        for (const auto& [text, weight] : law_of_tree(make, draft, target, jointly))
          mean += weight * static_cast<double>(text.size());
        return mean;
      };
      const double gain = tokens(true) - tokens(false);
      least = std::min(least, gain);
      total += gain;
    }
  }
  CHECK(total > 1.0 && least > -0.05);
}

TEST(following_a_tree) {
  DraftTree tree;
  for (const auto& [parent, token] : {std::pair{-1, 5}, {-1, 6}, {0, 1}, {1, 2}, {1, 3}, {4, 9}})
    tree.add(parent, token);
  const auto choices = [](const std::vector<Token>& text) { return [text](int node) { return text[idx(node + 1)]; }; };
  CHECK(follow_tree(tree, choices({7, 0, 0, 0, 0, 0, 0})).last == -1);
  const TreeVerdict found = follow_tree(tree, choices({6, 0, 3, 0, 0, 9, 4}));
  CHECK(found.last == 5 && found.next_token == 4);
  CHECK((path_to(tree, 5) == Parents{1, 4, 5}) && path_to(tree, -1).empty());
}

TEST_MAIN()
