// The layers of a block drafter small enough to enumerate: the logits of a place are a hash of the target's hidden
// rows, of the anchor, of the place and of how many there are. With a bias they change with the token before, and each
// place has a confidence, which does so too.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "speculative/head_models.h"
#include "toy_model.h"

namespace toy {

class BlockLayers final : public specdec::BlockLayers {
 public:
  struct Read {  // of a slot
    int first = 0;
    std::vector<float> rows;
  };

  BlockLayers(int vocabulary, std::uint64_t seed, int places, bool biased, int slots = 1, int batch = 64)
      : vocabulary_(vocabulary),
        seed_(seed),
        places_(places),
        biased_(biased),
        batch_(batch),
        caches_(static_cast<std::size_t>(slots)) {}

  int vocabulary_size() const override { return vocabulary_; }
  int context_length() const override { return 64; }
  int batch_size() const override { return batch_; }
  int row_capacity() const override { return batch_; }
  int pass_size() const override { return pass_size_; }
  bool is_end_of_generation(Token) const override { return false; }
  int target_row_size() const override { return 1; }
  int most_places() const override { return places_; }
  int blocks_per_pass(int num_places) const override { return std::max(1, batch_ / (num_places + 1)); }
  int length(int slot) const override { return cache(slot).first + static_cast<int>(cache(slot).rows.size()); }
  void decode(const std::vector<PassInput>&) override { throw std::logic_error("a block drafter reads rows"); }
  const float* logits(int row) const override { return rows_.at(static_cast<std::size_t>(row)).data(); }

  void read(const std::vector<Rows>& inputs, const float* rows) override {
    begin_pass();
    for (const Rows& input : inputs) {
      check_slot(input.slot);
      pass_size_ += input.count;
      Read& cache = caches_.at(static_cast<std::size_t>(input.slot));
      cache.rows.insert(cache.rows.end(), rows, rows + input.count);
      rows += input.count;
      num_rows_read += input.count;
    }
    if (pass_size_ > batch_) throw std::logic_error("batch too large");
  }
  void fill(const std::vector<Block>& blocks, int num_places) override {
    begin_pass();
    if (num_places > places_ || static_cast<int>(blocks.size()) > blocks_per_pass(num_places))
      throw std::logic_error("too large a block, or too many of them");
    ++num_fills;
    for (const Block& block : blocks) {
      check_slot(block.slot);
      pass_size_ += num_places + 1;
      for (int place = 0; place < num_places; ++place) {
        const std::uint64_t hash = base_hash(cache(block.slot).rows, block.anchor, place, num_places);
        rows_.push_back(base_logits(hash));
        scores_.push_back(base_score(hash));
      }
    }
  }
  void empty(int slot, int position) override { caches_.at(static_cast<std::size_t>(slot)) = {position, {}}; }
  bool finishes_rows() const override { return biased_; }
  void finish_row(Token before, float* logits) const override {
    std::uint64_t hash = mix(seed_ + 5 + static_cast<std::uint64_t>(before));
    for (int token = 0; token < vocabulary_; ++token) {
      hash = mix(hash);
      logits[token] += static_cast<float>(hash % 2001) / 1000.0f - 1.0f;
    }
  }
  bool has_confidences() const override { return biased_; }
  float score(int row) const override { return scores_.at(static_cast<std::size_t>(row)); }
  double confidence_of(float score, Token before) const override {
    return 0.5 * score + 0.5 * fraction(mix(seed_ + 11 + static_cast<std::uint64_t>(before)));
  }
  void truncate(int slot, int length) override {
    Read& cache = caches_.at(static_cast<std::size_t>(slot));
    if (length <= cache.first) cache = {};
    else if (length < this->length(slot)) cache.rows.resize(static_cast<std::size_t>(length - cache.first));
  }
  void copy(int from, int to) override { caches_.at(static_cast<std::size_t>(to)) = cache(from); }
  const Read& cache(int slot) const { return caches_.at(static_cast<std::size_t>(slot)); }

  // The row after `text`, whose first num_committed tokens are committed.
  std::vector<float> logits_after(const std::vector<Token>& text, int num_committed, int num_places) const {
    std::vector<float> logits = base_logits(hash_after(text, num_committed, num_places));
    if (biased_) finish_row(text.back(), logits.data());
    return logits;
  }
  double confidence_after(const std::vector<Token>& text, int num_committed, int num_places) const {
    return confidence_of(base_score(hash_after(text, num_committed, num_places)), text.back());
  }
  static float row_of(const std::vector<Token>& text, int position) {
    return Model::hidden_after({text.begin(), text.begin() + position + 1});
  }

  std::function<void(int)> before_pass;  // of the pass's number; may throw
  int num_passes = 0, num_fills = 0, num_rows_read = 0;

 private:
  void begin_pass() {
    ++num_passes;
    if (before_pass) before_pass(num_passes);
    rows_.clear();
    scores_.clear();
    pass_size_ = 0;
    previous_slot_ = -1;
  }
  void check_slot(int slot) {
    if (slot <= previous_slot_) throw std::logic_error("slots must ascend");
    previous_slot_ = slot;
  }
  static float fraction(std::uint64_t hash) { return static_cast<float>(hash % 1000) / 1000.0f; }
  std::uint64_t hash_after(const std::vector<Token>& text, int num_committed, int num_places) const {
    std::vector<float> rows;
    for (int i = 0; i < num_committed - 1; ++i) rows.push_back(row_of(text, i));
    const auto place = static_cast<int>(text.size()) - num_committed;
    return base_hash(rows, text[static_cast<std::size_t>(num_committed - 1)], place, num_places);
  }
  std::uint64_t base_hash(const std::vector<float>& rows, Token anchor, int place, int num_places) const {
    std::uint64_t hash = mix(seed_ + static_cast<std::uint64_t>(place * 64 + num_places));
    for (const float row : rows) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &row, sizeof bits);
      hash = mix(hash ^ bits);
    }
    return mix(hash ^ static_cast<std::uint64_t>(anchor));
  }
  static float base_score(std::uint64_t hash) { return fraction(mix(hash + 13)); }
  std::vector<float> base_logits(std::uint64_t hash) const {
    std::vector<float> logits;
    for (int token = 0; token < vocabulary_; ++token) {
      hash = mix(hash);
      logits.push_back(static_cast<float>(hash % 4001) / 1000.0f - 2.0f);
    }
    return logits;
  }

  int vocabulary_;
  std::uint64_t seed_;
  int places_;
  bool biased_;
  int batch_;
  int pass_size_ = 0, previous_slot_ = -1;
  std::vector<Read> caches_;
  std::vector<std::vector<float>> rows_;
  std::vector<float> scores_;
};

}  // namespace toy
