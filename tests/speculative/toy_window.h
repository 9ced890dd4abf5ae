// A toy model whose cache is a window. Like a transformer's, the values of its tokens keep what the tokens before them
// were computed from, also after those have left the window.
#pragma once

#include <algorithm>

#include "speculative/windowed_model.h"
#include "toy_model.h"

namespace toy {

class WindowModel final : public specdec::WindowedModel {
 public:
  WindowModel(int vocabulary, std::uint64_t seed, int window, int batch = 64, int slots = 1)
      : rows_of_(vocabulary, seed), window_(window), batch_(batch), slots_(static_cast<std::size_t>(slots)) {}

  int vocabulary_size() const override { return rows_of_.vocabulary_size(); }
  int context_length() const override { return 1 << 30; }
  int batch_size() const override { return batch_; }
  int row_capacity() const override { return batch_; }
  int pass_size() const override { return pass_size_; }
  bool is_end_of_generation(Token) const override { return false; }
  int length(int slot) const override { return first(slot) + static_cast<int>(at(slot).values.size()); }
  int first(int slot) const override { return at(slot).first; }

  void decode(const std::vector<PassInput>& inputs) override {
    if (before_pass) before_pass();
    rows_.clear();
    pass_size_ = 0;
    for (const PassInput& input : inputs) {
      Slot& s = at(input.slot);
      for (int i = 0; i < input.num_tokens; ++i) {
        std::vector<Token> context;
        for (const Value& value : s.values) context.push_back(keeps_values ? value.computed : value.token);
        context.push_back(input.tokens[i]);
        std::uint64_t hash = 3;
        for (const Token value : context) hash = mix(hash ^ static_cast<std::uint64_t>(value));
        s.values.push_back({input.tokens[i], static_cast<Token>(hash % 1000003)});
        if (i >= input.num_tokens - input.num_rows) rows_.push_back(rows_of_.logits_after(context));
      }
      if (static_cast<int>(s.values.size()) > window_) throw std::logic_error("past the window");
      pass_size_ += input.num_tokens;
    }
    if (pass_size_ > batch_) throw std::logic_error("batch too large");
    ++num_passes;
    num_read += pass_size_;
    largest_pass = std::max(largest_pass, pass_size_);
  }
  const float* logits(int row) const override { return rows_.at(static_cast<std::size_t>(row)).data(); }
  void truncate(int slot, int length) override {
    if (length >= this->length(slot)) return;
    if (length <= first(slot)) return start_at(slot, 0);
    at(slot).values.resize(static_cast<std::size_t>(length - first(slot)));
  }
  void copy(int from, int to) override { at(to) = at(from); }
  void start_at(int slot, int position) override { at(slot) = {position, {}}; }
  bool drop_before(int slot, int position) override {
    if (!slides) return false;
    Slot& s = at(slot);
    const int dropped = std::clamp(position - s.first, 0, static_cast<int>(s.values.size()));
    s.values.erase(s.values.begin(), s.values.begin() + dropped);
    s.first += dropped;
    return true;
  }

  // What the last token of the slot was computed from.
  Token last_value(int slot) const { return at(slot).values.back().computed; }

  bool keeps_values = true;  // false: a row depends on the tokens that are in the window, and on nothing else
  bool slides = true;
  std::function<void()> before_pass;  // may throw
  int num_passes = 0, num_read = 0, largest_pass = 0;

 private:
  struct Value {
    Token token, computed;
  };
  struct Slot {
    int first = 0;
    std::vector<Value> values;
  };
  Slot& at(int slot) { return slots_.at(static_cast<std::size_t>(slot)); }
  const Slot& at(int slot) const { return slots_.at(static_cast<std::size_t>(slot)); }

  Model rows_of_;
  int window_, batch_, pass_size_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::vector<float>> rows_;
};

}  // namespace toy
