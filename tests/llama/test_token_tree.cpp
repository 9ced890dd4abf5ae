// Passes over trees: every node's row, and every row after a path was kept, has the bits of a plain run.

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "llama/context.h"
#include "llama/self_draft.h"

namespace {

using namespace specdec;
using Row = std::vector<float>;

std::unique_ptr<Context> context_of(KvType type, int threads, int slots = 1) {
  static const auto model = std::make_shared<const Model>(std::string(MODELS) + "stdlib-draft-f16.gguf");
  Context::Options options;
  options.context_length = 1024;
  options.num_slots = slots;
  options.kv_type = type;
  return std::make_unique<Context>(model, std::make_shared<ThreadPool>(threads), options);
}

struct Tree {
  std::vector<Token> tokens;
  std::vector<int> parents;
  std::vector<int> depths;

  // Level by level.
  static Tree random(std::mt19937& random, int size) {
    Tree tree;
    std::vector<int> above{-1};
    for (int depth = 0; tree.size() < size; ++depth) {
      std::vector<int> level;
      const int width = std::min(size - tree.size(), 1 + static_cast<int>(random() % 8));
      std::vector<int> parents;
      for (int i = 0; i < width; ++i) parents.push_back(above[random() % above.size()]);
      for (const int parent : parents) {
        level.push_back(tree.size());
        tree.tokens.push_back(static_cast<Token>(random() % 4000));
        tree.parents.push_back(parent);
        tree.depths.push_back(depth);
      }
      above = level;
    }
    return tree;
  }
  int size() const { return static_cast<int>(tokens.size()); }
  std::vector<int> path_to(int node) const {
    std::vector<int> path;
    for (; node >= 0; node = parents[idx(node)]) path.insert(path.begin(), node);
    return path;
  }
};

std::vector<Token> some_text(std::mt19937& random, int length) {
  std::vector<Token> text;
  for (int i = 0; i < length; ++i) text.push_back(static_cast<Token>(random() % 4000));
  return text;
}

Row row(const Context& context, int index) {
  return {context.logits(index), context.logits(index) + context.vocabulary_size()};
}

void read(Context& context, const std::vector<Token>& text, int slot = 0) {
  for (std::size_t at = 0; at < text.size(); at += 300)
    context.decode({{slot, text.data() + at, static_cast<int>(std::min<std::size_t>(300, text.size() - at)), 0}});
}

// The rows after the last token of a text and after each of `next`.
std::vector<Row> plain_rows(Context& context, const std::vector<Token>& text, const std::vector<Token>& next) {
  context.truncate(0, static_cast<int>(text.size()) - 1);
  std::vector<Token> tokens{text.back()};
  tokens.insert(tokens.end(), next.begin(), next.end());
  const int count = static_cast<int>(tokens.size());
  context.decode({{0, tokens.data(), count, count}});
  std::vector<Row> rows;
  for (int i = 0; i < count; ++i) rows.push_back(row(context, i));
  return rows;
}

std::vector<Token> tokens_of(const Tree& tree, const std::vector<int>& path) {
  std::vector<Token> tokens;
  for (const int node : path) tokens.push_back(tree.tokens[idx(node)]);
  return tokens;
}

// One pass over the last token of the text and the tree.
void read_tree(Context& context, const std::vector<Token>& text, const Tree& tree) {
  std::vector<Token> tokens{text.back()};
  tokens.insert(tokens.end(), tree.tokens.begin(), tree.tokens.end());
  const int count = static_cast<int>(tokens.size());
  context.decode({{0, tokens.data(), count, count, &tree.parents}});
}

void check_tree(Context& plain, Context& branching, const std::vector<Token>& text, const Tree& tree,
                std::mt19937& random) {
  read_tree(branching, text, tree);
  CHECK(branching.length(0) == static_cast<int>(text.size()));
  std::vector<Row> rows;
  for (int i = 0; i <= tree.size(); ++i) rows.push_back(row(branching, i));
  for (int node = 0; node < tree.size(); ++node) {
    const std::vector<Row> expected = plain_rows(plain, text, tokens_of(tree, tree.path_to(node)));
    CHECK(rows[0] == expected[0]);
    CHECK(rows[idx(node) + 1] == expected.back());
  }
  const std::vector<int> path = tree.path_to(static_cast<int>(random() % idx(tree.size() + 1)) - 1);
  branching.keep_path(0, path);
  std::vector<Token> kept = text;
  for (const Token token : tokens_of(tree, path)) kept.push_back(token);
  CHECK(branching.length(0) == static_cast<int>(kept.size()));
  const std::vector<Token> more = some_text(random, 3);
  plain.truncate(0, static_cast<int>(text.size()) - 1);
  std::vector<Row> expected = plain_rows(plain, text, tokens_of(tree, path));
  plain.decode({{0, more.data(), 3, 3}});
  branching.decode({{0, more.data(), 3, 3}});
  for (int i = 0; i < 3; ++i) CHECK(row(plain, i) == row(branching, i));
}

}  // namespace

TEST(rows_have_the_bits_of_a_plain_run) {
  for (const KvType type : {KvType::f16, KvType::q8_0}) {
    for (const int threads : {1, 2}) {
      const auto plain = context_of(type, threads), branching = context_of(type, threads);
      std::mt19937 random(7);
      for (const int length : {1, 2, 60, 63, 64, 65, 130, 500, 511, 512, 513, 700}) {
        const std::vector<Token> text = some_text(random, length);
        for (Context* context : {plain.get(), branching.get()}) {
          context->truncate(0, 0);
          read(*context, {text.begin(), text.end() - 1});
        }
        check_tree(*plain, *branching, text, Tree::random(random, 1 + static_cast<int>(random() % 40)), random);
      }
    }
  }
}

TEST(a_tree_of_the_largest_size) {
  const auto plain = context_of(KvType::f16, 2), branching = context_of(KvType::f16, 2);
  std::mt19937 random(11);
  const std::vector<Token> text = some_text(random, 40);
  for (Context* context : {plain.get(), branching.get()}) read(*context, {text.begin(), text.end() - 1});
  Tree tree = Tree::random(random, max_tree_nodes - 1);
  check_tree(*plain, *branching, text, tree, random);
}

TEST(trees_that_are_read_level_by_level) {
  const auto plain = context_of(KvType::f16, 2), branching = context_of(KvType::f16, 2);
  std::mt19937 random(5);
  for (int round = 0; round < 10; ++round) {
    const std::vector<Token> text = some_text(random, 20 + static_cast<int>(random() % 60));
    for (Context* context : {plain.get(), branching.get()}) {
      context->truncate(0, 0);
      read(*context, text);
    }
    const Tree tree = Tree::random(random, 20);
    std::vector<int> parents;
    for (int node = 0, next = 0; node < tree.size(); node = next) {
      while (next < tree.size() && tree.depths[idx(next)] == tree.depths[idx(node)])
        parents.push_back(tree.parents[idx(next++)]);
      branching->decode({{0, tree.tokens.data() + node, next - node, next - node, &parents}});
      for (int i = node; i < next; ++i)
        CHECK(row(*branching, i - node) == plain_rows(*plain, text, tokens_of(tree, tree.path_to(i))).back());
    }
    const std::vector<int> path = tree.path_to(tree.size() - 1);
    branching->keep_path(0, path);
    plain_rows(*plain, text, tokens_of(tree, path));
    const Token next = 17;
    plain->decode({{0, &next, 1, 1}});
    branching->decode({{0, &next, 1, 1}});
    CHECK(row(*plain, 0) == row(*branching, 0));
  }
}

// The draft of the target in few bits: what it reads changes no bit of the target's rows, and is not taken for text.
TEST(passes_with_rounded_weights) {
  const auto model = std::make_shared<Model>(std::string(MODELS) + "stdlib-draft-f16.gguf");
  CHECK(model->round(TileWeights::two_bits, 1).empty());
  Context::Options options;
  options.context_length = 100;
  options.num_slots = 2;
  Context branching(model, std::make_shared<ThreadPool>(1), options);
  SelfDraft draft(branching, 2);
  const auto plain = context_of(KvType::f16, 1);
  std::mt19937 random(9);
  const std::vector<Token> text = some_text(random, 60), drafts = some_text(random, 30);
  read(*plain, {text.begin(), text.end() - 1});
  read(branching, {text.begin(), text.end() - 1}, 1);
  const std::vector<Row> expected = plain_rows(*plain, text, drafts);
  const auto read_drafts = [&] {
    CHECK(draft.length(1) == 59 && draft.end(1) == 100);
    draft.decode({{1, &text.back(), 1, 1}});
    const Row first = row(branching, 0);
    CHECK(first != expected[0]);  // it is rounded
    draft.decode({{1, drafts.data(), 2, 1}});
    CHECK(draft.length(1) == 62 && branching.length(1) == 59 && draft.room_for_nodes(1, 0, 3) == 35);
    const std::vector<int> root{-1, -1}, below{-1, -1, 0, 1};
    draft.decode({{1, drafts.data() + 2, 2, 2, &root}});
    const Row branch = row(branching, 0);
    draft.decode({{1, drafts.data() + 3, 2, 2, &below}});
    CHECK(draft.length(1) == 62);
    draft.truncate(1, 0);  // of itself only
    CHECK(draft.length(1) == 59 && branching.length(1) == 59 && branching.num_rounded_nodes(1) == 0);
    draft.decode({{1, &text.back(), 1, 1}});
    CHECK(row(branching, 0) == first);
    draft.decode({{1, drafts.data(), 3, 1}});
    CHECK(row(branching, 0) == branch);  // the same tokens as a chain
  };
  std::vector<Token> tokens{text.back()};
  tokens.insert(tokens.end(), drafts.begin(), drafts.end());
  read_drafts();
  branching.decode({{1, tokens.data(), 31, 31}});
  for (int i = 0; i < 31; ++i) CHECK(row(branching, i) == expected[idx(i)]);
  CHECK(branching.length(1) == 90 && draft.length(1) == 90);
  branching.truncate(1, 59);
  read_drafts();
  const std::vector<int> chain{-1, 0, 1};  // the target's tree replaces them, too
  branching.decode({{1, tokens.data(), 4, 4, &chain}});
  for (int i = 0; i < 4; ++i) CHECK(row(branching, i) == expected[idx(i)]);
  branching.keep_path(1, {0, 1});
  CHECK(branching.length(1) == 62 && draft.length(1) == 62);
  CHECK_THROWS(branching.decode_rounded({{1, tokens.data(), 1, 1}}), std::logic_error, "nodes only");
  branching.truncate(1, 59);
  branching.set_cancel_check([] { return true; });
  CHECK_THROWS(draft.decode({{1, tokens.data(), 20, 1}}), Cancelled, "cancelled");
  branching.set_cancel_check(nullptr);
  read_drafts();
}

// Several slots share one pass over the weights, also where their trees differ in size and one has a chain: the
// padding behind a tree leaves nothing, whether its next level follows or a path is kept.
TEST(trees_of_several_slots) {
  constexpr int num_slots = 4;
  const auto plain = context_of(KvType::f16, 2), branching = context_of(KvType::f16, 2, num_slots);
  std::mt19937 random(13);
  for (int round = 0; round < 8; ++round) {
    std::vector<std::vector<Token>> texts;
    std::vector<Tree> trees;
    for (int slot = 0; slot < num_slots; ++slot) {
      texts.push_back(some_text(random, 5 + static_cast<int>(random() % 90)));
      trees.push_back(Tree::random(random, 4 + static_cast<int>(random() % 10)));
      branching->truncate(slot, 0);
      read(*branching, texts.back(), slot);
    }
    const int chain = round % num_slots, idle = (round + 1 + round / 4) % num_slots;
    std::vector<std::vector<int>> parents(num_slots);
    std::vector<int> next(num_slots, 0);  // node
    const auto expect = [&](int slot, int node, const Row& found) {
      plain->truncate(0, 0);
      read(*plain, {texts[idx(slot)].begin(), texts[idx(slot)].end() - 1});
      const Tree& tree = trees[idx(slot)];
      CHECK(found == plain_rows(*plain, texts[idx(slot)], tokens_of(tree, tree.path_to(node))).back());
    };
    for (bool more = true; more;) {  // level by level
      more = false;
      std::vector<PassInput> inputs;
      std::vector<std::pair<int, int>> nodes;  // slot, node
      for (int slot = 0; slot < num_slots; ++slot) {
        const Tree& tree = trees[idx(slot)];
        const int begin = next[idx(slot)];
        if (begin == tree.size() || slot == chain || (slot == idle && random() % 2 == 0)) continue;
        int end = begin;
        for (; end < tree.size() && tree.depths[idx(end)] == tree.depths[idx(begin)]; ++end) {
          parents[idx(slot)].push_back(tree.parents[idx(end)]);
          nodes.push_back({slot, end});
        }
        inputs.push_back({slot, tree.tokens.data() + begin, end - begin, end - begin, &parents[idx(slot)]});
        next[idx(slot)] = end;
      }
      for (int slot = 0; slot < num_slots; ++slot)
        more = more || (slot != chain && next[idx(slot)] < trees[idx(slot)].size());
      if (inputs.empty()) continue;
      branching->decode(inputs);
      std::vector<Row> rows;
      for (std::size_t i = 0; i < nodes.size(); ++i) rows.push_back(row(*branching, static_cast<int>(i)));
      for (std::size_t i = 0; i < nodes.size(); ++i) expect(nodes[i].first, nodes[i].second, rows[i]);
    }
    // All trees in one pass, and the chain.
    std::vector<PassInput> inputs;
    std::vector<std::vector<Token>> tokens;
    for (int slot = 0; slot < num_slots; ++slot) {
      const int length = static_cast<int>(texts[idx(slot)].size()) - 1;
      branching->truncate(slot, length);
      tokens.push_back(trees[idx(slot)].tokens);
      tokens.back().insert(tokens.back().begin(), texts[idx(slot)].back());
    }
    for (int slot = 0; slot < num_slots; ++slot) {
      const int count = static_cast<int>(tokens[idx(slot)].size());
      inputs.push_back({slot, tokens[idx(slot)].data(), count, count});
      if (slot != chain) inputs.back().parents = &trees[idx(slot)].parents;
    }
    branching->decode(inputs);
    CHECK(branching->pass_size() % num_slots == 0);  // as wide as the widest
    std::vector<Row> rows;
    for (const PassInput& input : inputs) {
      for (int i = 0; i < input.num_tokens; ++i) rows.push_back(row(*branching, static_cast<int>(rows.size())));
    }
    std::size_t at = 0;
    for (int slot = 0; slot < num_slots; ++slot) {
      const Tree& tree = trees[idx(slot)];
      for (int node = -1; node < tree.size(); ++node, ++at) {
        if (slot != chain) expect(slot, node, rows[at]);
      }
    }
    for (int slot = 0; slot < num_slots; ++slot) {
      if (slot == chain) continue;
      const std::vector<int> path = trees[idx(slot)].path_to(trees[idx(slot)].size() - 1);
      branching->keep_path(slot, path);
      const Token last = 17;
      branching->decode({{slot, &last, 1, 1}});
      const Row found = row(*branching, 0);
      plain->truncate(0, 0);
      read(*plain, {texts[idx(slot)].begin(), texts[idx(slot)].end() - 1});
      plain_rows(*plain, texts[idx(slot)], tokens_of(trees[idx(slot)], path));
      plain->decode({{0, &last, 1, 1}});
      CHECK(found == row(*plain, 0));
    }
  }
}

TEST(a_tree_that_is_dropped_leaves_nothing) {
  const auto plain = context_of(KvType::f16, 1), branching = context_of(KvType::f16, 1, 2);
  std::mt19937 random(3);
  const std::vector<Token> text = some_text(random, 70);
  read(*plain, {text.begin(), text.end() - 1});
  read(*branching, {text.begin(), text.end() - 1});
  const Tree tree = Tree::random(random, 12);
  const std::vector<Row> expected = plain_rows(*plain, text, {5, 6});
  read_tree(*branching, text, tree);
  branching->truncate(0, 70);  // drops the nodes alone
  CHECK(branching->length(0) == 70);
  CHECK(plain_rows(*branching, text, {5, 6}) == expected);
  branching->truncate(0, 69);
  read_tree(*branching, text, tree);
  branching->copy(0, 1);
  CHECK(branching->length(1) == 70);
  const std::vector<Token> next{5, 6};
  branching->decode({{1, next.data(), 2, 2}});
  CHECK(row(*branching, 1) == expected[2]);
  branching->truncate(0, 69);
  read_tree(*branching, text, tree);
  branching->truncate(0, 30);
  CHECK(branching->length(0) == 30);
}

// A cancelled pass leaves the slot as it was.
TEST(a_cancelled_tree) {
  const auto context = context_of(KvType::f16, 1);
  std::mt19937 random(3);
  const std::vector<Token> text = some_text(random, 70);
  read(*context, {text.begin(), text.end() - 1});
  const std::vector<Row> expected = plain_rows(*context, text, {5});
  context->truncate(0, 69);
  int calls = 0;
  context->set_cancel_check([&] { return ++calls > 1; });
  const Tree tree = Tree::random(random, 40);
  CHECK_THROWS(read_tree(*context, text, tree), Cancelled, "cancelled");
  context->set_cancel_check({});
  CHECK(context->length(0) == 69);
  CHECK(plain_rows(*context, text, {5}) == expected);
}

TEST_MAIN()
