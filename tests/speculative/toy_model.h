// A language model small enough to enumerate: logits are a hash of the context and a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "speculative/head_models.h"

namespace toy {

using specdec::PassInput;
using specdec::Token;

inline std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

class Model final : public specdec::HiddenRowModel {
 public:
  Model(int vocabulary, std::uint64_t seed, int context = 64, int batch = 64, int slots = 1)
      : vocabulary_(vocabulary),
        seed_(seed),
        context_(context),
        batch_(batch),
        caches_(static_cast<std::size_t>(slots)),
        trees_(static_cast<std::size_t>(slots)) {}

  int vocabulary_size() const override { return vocabulary_; }
  int context_length() const override { return context_; }
  int batch_size() const override { return batch_; }
  int row_capacity() const override { return most_rows > 0 ? most_rows : batch_; }
  int pass_size() const override { return pass_size_; }
  bool is_end_of_generation(Token token) const override { return token == end_of_generation; }
  int length(int slot) const override { return static_cast<int>(cache(slot).size()); }

  void decode(const std::vector<PassInput>& inputs) override {
    ++num_passes;
    if (before_pass) before_pass(num_passes);
    rows_.clear();
    hidden_.clear();
    int total = 0, previous_slot = -1;
    for (const PassInput& input : inputs) {
      if (input.slot <= previous_slot) throw std::logic_error("slots must ascend");
      previous_slot = input.slot;
      total += input.num_tokens;
      auto& tokens = caches_.at(static_cast<std::size_t>(input.slot));
      auto& tree = trees_.at(static_cast<std::size_t>(input.slot));
      const int num_nodes = input.parents == nullptr ? 0 : static_cast<int>(input.parents->size() - tree.size());
      if (input.parents == nullptr) tree.clear();
      if (num_nodes > input.num_tokens || (num_nodes > 0 && !branches)) throw std::logic_error("not a tree");
      if (input.picture != nullptr) check(*input.picture, input, static_cast<int>(tokens.size()));
      for (int i = 0; i < input.num_tokens - num_nodes; ++i) {
        const bool is_place = input.tokens[i] == specdec::in_picture && reads_pictures() == (input.picture != nullptr);
        if (!is_place && (input.tokens[i] < 0 || input.tokens[i] >= vocabulary_))
          throw std::logic_error("token outside the vocabulary");
        tokens.push_back(input.tokens[i]);
        hidden_.push_back(hidden_after(tokens));
        if (static_cast<int>(tokens.size()) > context_) throw std::logic_error("past the context");
        if (i >= input.num_tokens - input.num_rows) rows_.push_back(logits_after(tokens));
      }
      for (int i = input.num_tokens - num_nodes; i < input.num_tokens; ++i) {
        const int parent = (*input.parents)[tree.size()];
        std::vector<Token> path = parent < 0 ? std::vector<Token>() : tree.at(static_cast<std::size_t>(parent));
        if (!tree.empty() && path.size() + 1 < tree.back().size()) throw std::logic_error("not level by level");
        path.push_back(input.tokens[i]);
        tree.push_back(path);
        path.insert(path.begin(), tokens.begin(), tokens.end());
        hidden_.push_back(hidden_after(path));
        if (static_cast<int>(tokens.size() + tree.size()) > context_) throw std::logic_error("past the context");
        if (i >= input.num_tokens - input.num_rows) rows_.push_back(logits_after(path));
      }
    }
    if (total > batch_) throw std::logic_error("batch too large");
    pass_size_ = total;
    largest_pass = std::max(largest_pass, total);
    if (after_pass) after_pass(num_passes);
  }
  int hidden_size() const override { return 1; }
  const float* hidden_row(int token) const override { return &hidden_.at(static_cast<std::size_t>(token)); }
  static float hidden_after(const std::vector<Token>& context) {
    std::uint64_t hash = 7;
    for (const Token token : context) hash = mix(hash ^ static_cast<std::uint64_t>(token));
    return static_cast<float>(hash % 1000003);
  }
  const float* logits(int row) const override { return rows_.at(static_cast<std::size_t>(row)).data(); }
  bool reads_trees() const override { return branches; }
  bool reads_pictures() const override { return !picture_key.empty(); }
  void keep_path(int slot, const std::vector<int>& nodes) override {
    auto& tokens = caches_.at(static_cast<std::size_t>(slot));
    auto& tree = trees_.at(static_cast<std::size_t>(slot));
    std::vector<Token> path;
    for (const int node : nodes) {
      path.push_back(tree.at(static_cast<std::size_t>(node)).back());
      if (path != tree[static_cast<std::size_t>(node)]) throw std::logic_error("not a path");
    }
    tokens.insert(tokens.end(), path.begin(), path.end());
    tree.clear();
  }
  void truncate(int slot, int length) override {
    auto& tokens = caches_.at(static_cast<std::size_t>(slot));
    trees_.at(static_cast<std::size_t>(slot)).clear();
    if (length < static_cast<int>(tokens.size()) && before_truncation) before_truncation();
    if (length < static_cast<int>(tokens.size())) tokens.resize(goes_back ? static_cast<std::size_t>(length) : 0);
  }
  void copy(int from, int to) override {
    caches_.at(static_cast<std::size_t>(to)) = cache(from);
    if (after_copy) after_copy();
  }

  const std::vector<Token>& cache(int slot) const { return caches_.at(static_cast<std::size_t>(slot)); }

  // [vocabulary], within -2..2.
  std::vector<float> logits_after(const std::vector<Token>& context) const {
    if (table) return table(context);
    std::uint64_t hash = mix(seed_);
    for (const Token token : context) {
      if (token != specdec::in_picture) hash = mix(hash ^ static_cast<std::uint64_t>(token));
      for (const char letter : token == specdec::in_picture ? picture_key : "")
        hash = mix(hash ^ (1000u + static_cast<unsigned char>(letter)));
    }
    std::vector<float> row;
    for (int token = 0; token < vocabulary_; ++token) {
      hash = mix(hash);
      row.push_back(static_cast<float>(hash % 4001) / 1000.0f - 2.0f);
    }
    return row;
  }

  Token end_of_generation = -2;
  std::string picture_key;  // it reads pictures, of which texts have only this one; empty: it reads none
  std::function<std::vector<float>(const std::vector<Token>&)> table;  // replaces the random logits
  std::function<void(int)> before_pass, after_pass;                    // of the pass's number; may throw
  std::function<void()> before_truncation, after_copy;                 // likewise
  bool branches = true;                                                // reads trees
  bool goes_back = true;  // false: truncation empties the cache (recurrent models)
  int most_rows = 0;      // of a pass; 0: as many as tokens
  int num_passes = 0;
  int largest_pass = 0;

 private:
  void check(const specdec::Picture& picture, const PassInput& input, int place) const {
    if (picture.key != picture_key || picture.place != place || picture.num_rows != input.num_tokens)
      throw std::logic_error("another picture, or a part of one");
  }

  int vocabulary_;
  std::uint64_t seed_;
  int context_, batch_;
  int pass_size_ = 0;
  std::vector<std::vector<Token>> caches_;
  std::vector<std::vector<std::vector<Token>>> trees_;  // [slot][node] the tokens of its path
  std::vector<std::vector<float>> rows_;
  std::vector<float> hidden_;  // by token of the last pass
};

}  // namespace toy
