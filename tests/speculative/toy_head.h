// The layers of a drafting head small enough to enumerate: logits are a hash of all tokens and of the hidden rows they
// were read with. They read the target's rows as these are, or another way: then their own rows are x and 7 x.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/index.h"
#include "speculative/head_models.h"
#include "toy_model.h"

namespace toy {

class HeadLayers final : public specdec::HeadLayers {
 public:
  using Read = std::vector<std::pair<Token, float>>;  // tokens, each with its hidden row

  HeadLayers(int vocabulary, std::uint64_t seed, int context = 64, int batch = 64, int slots = 1, bool fuses = false)
      : vocabulary_(vocabulary),
        seed_(seed),
        context_(context),
        batch_(batch),
        fuses_(fuses),
        caches_(static_cast<std::size_t>(slots)),
        trees_(static_cast<std::size_t>(slots)) {}

  int vocabulary_size() const override { return vocabulary_; }
  int context_length() const override { return context_; }
  int batch_size() const override { return batch_; }
  int row_capacity() const override { return batch_; }
  int pass_size() const override { return pass_size_; }
  bool is_end_of_generation(Token) const override { return false; }
  bool reads_trees() const override { return branches; }
  int hidden_size() const override { return fuses_ ? 2 : 1; }
  int target_row_size() const override { return 1; }
  const float* fuse(const float* target_rows, int count) override {
    if (!fuses_) return target_rows;
    if (count < 1 || count > batch_) throw std::logic_error("too many rows to fuse, or none");
    fused_.clear();
    for (int i = 0; i < count; ++i) add_own(fused_, as_read(target_rows[i]));
    return fused_.data();
  }
  int length(int slot) const override { return static_cast<int>(cache(slot).size()); }

  void decode_with(const std::vector<PassInput>& inputs, const float* rows) override {
    ++num_passes;
    if (before_pass) before_pass(num_passes);
    rows_.clear();
    hidden_.clear();
    int total = 0, previous_slot = -1;
    for (const PassInput& input : inputs) {
      if (input.slot <= previous_slot) throw std::logic_error("slots must ascend");
      previous_slot = input.slot;
      total += input.num_tokens;
      std::vector<Read>& tree = trees_.at(static_cast<std::size_t>(input.slot));
      if (input.parents == nullptr) tree.clear();
      const int num_nodes = input.parents == nullptr ? 0 : static_cast<int>(input.parents->size() - tree.size());
      for (int i = 0; i < input.num_tokens; ++i) {
        const bool is_node = i >= input.num_tokens - num_nodes;
        const float* row = rows;
        rows += hidden_size();
        if (fuses_ && row[1] != 7.0f * row[0]) throw std::logic_error("a row that is not the head's");
        const int parent = is_node ? input.parents->at(tree.size()) : -1;
        if (is_node) tree.push_back(parent < 0 ? cache(input.slot) : tree.at(specdec::idx(parent)));
        Read& read = is_node ? tree.back() : caches_.at(specdec::idx(input.slot));
        read.emplace_back(input.tokens[i], row[0]);
        if (static_cast<int>(read.size()) > context_) throw std::logic_error("past the context");
        if (fuses_) add_own(hidden_, own_row(read));
        else hidden_.push_back(own_row(read));
        if (i >= input.num_tokens - input.num_rows) rows_.push_back(logits_after(read));
      }
    }
    if (total > batch_) throw std::logic_error("batch too large");
    pass_size_ = total;
  }
  const float* logits(int row) const override { return rows_.at(static_cast<std::size_t>(row)).data(); }
  const float* hidden_row(int token) const override {
    return &hidden_.at(static_cast<std::size_t>(token * hidden_size()));
  }
  void truncate(int slot, int length) override {
    Read& read = caches_.at(static_cast<std::size_t>(slot));
    trees_.at(static_cast<std::size_t>(slot)).clear();
    if (length < static_cast<int>(read.size())) read.resize(static_cast<std::size_t>(length));
  }
  void copy(int from, int to) override { caches_.at(static_cast<std::size_t>(to)) = cache(from); }
  const Read& cache(int slot) const { return caches_.at(static_cast<std::size_t>(slot)); }

  // What a head reads: tokens before num_committed with the target's rows, later ones with its own, or with `drafts`,
  // the rows of other layers.
  Read expected(const std::vector<Token>& tokens, int num_committed, const std::vector<float>& drafts = {}) const {
    Read read;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::vector<Token> before(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i));
      const bool is_own = static_cast<int>(i) >= num_committed;
      const auto own = [&] { return drafts.empty() ? own_row(read) : drafts.at(i - specdec::idx(num_committed)); };
      read.emplace_back(tokens[i], i == 0 ? 0.0f : is_own ? own() : as_read(Model::hidden_after(before)));
    }
    return read;
  }
  std::vector<float> logits_after(const Read& read) const {
    std::uint64_t hash = hash_of(read);
    std::vector<float> row;
    for (int token = 0; token < vocabulary_; ++token) {
      hash = mix(hash);
      row.push_back(static_cast<float>(hash % 4001) / 1000.0f - 2.0f);
    }
    return row;
  }

  float own_row(const Read& read) const { return static_cast<float>(hash_of(read) % 1000003) + 0.5f; }

  std::function<void(int)> before_pass;  // of the pass's number; may throw
  int num_passes = 0;
  bool branches = false;  // reads trees

  // What it makes of a row of the target.
  float as_read(float target_row) const { return fuses_ ? -target_row : target_row; }

 private:
  static void add_own(std::vector<float>& rows, float x) { rows.insert(rows.end(), {x, 7.0f * x}); }
  std::uint64_t hash_of(const Read& read) const {
    std::uint64_t hash = mix(seed_);
    for (const auto& [token, row] : read) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &row, sizeof bits);
      hash = mix(mix(hash ^ static_cast<std::uint64_t>(token)) ^ bits);
    }
    return hash;
  }
  int vocabulary_;
  std::uint64_t seed_;
  int context_, batch_;
  bool fuses_;
  int pass_size_ = 0;
  std::vector<Read> caches_;
  std::vector<std::vector<Read>> trees_;  // [slot][node] what is read up to it
  std::vector<std::vector<float>> rows_;
  std::vector<float> hidden_, fused_;
};

// A head of several layers: each drafts its own place, and the last one those behind it.
inline std::vector<float> layered_logits_after(const std::vector<const HeadLayers*>& layers,
                                               const std::vector<Token>& text, int num_committed) {
  std::vector<float> drafts, logits;
  for (int length = num_committed; length <= static_cast<int>(text.size()); ++length) {
    const HeadLayers& layer = *layers[std::min(specdec::idx(length - num_committed), layers.size() - 1)];
    const HeadLayers::Read read = layer.expected({text.begin(), text.begin() + length}, num_committed, drafts);
    drafts.push_back(layer.own_row(read));
    logits = layer.logits_after(read);
  }
  return logits;
}

}  // namespace toy
