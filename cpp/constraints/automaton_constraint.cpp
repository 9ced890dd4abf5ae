#include "constraints/automaton_constraint.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/index.h"

namespace specdec {
namespace {

class AutomatonConstraint final : public sampling::Constraint {
 public:
  AutomatonConstraint(ByteAutomaton automaton, std::shared_ptr<const SortedTokens> tokens)
      : automaton_(std::move(automaton)), tokens_(std::move(tokens)) {}

  int vocabulary_size() const override { return static_cast<int>(tokens_->pieces.size()); }

  void write_mask(std::uint32_t* words) override {
    if (states_.back() < 0) return;
    constexpr std::size_t max_masks = 128;
    if (masks_.size() >= max_masks) masks_.clear();
    std::vector<std::uint32_t>& mask = masks_[states_.back()];
    if (mask.empty()) mask = mask_of(states_.back());
    std::copy(mask.begin(), mask.end(), words);
  }

  bool advance(Token token) override {
    int state = states_.back();
    if (state < 0 || token < 0 || token >= vocabulary_size()) return false;
    const std::vector<Token>& ends = tokens_->ends;
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
      if (!automaton_.states[idx(state)].accepts) return false;
      states_.push_back(ended);
      return true;
    }
    const std::string& piece = tokens_->pieces[idx(token)];
    if (piece.empty()) return false;
    for (const char byte : piece) {
      state = automaton_.next(state, static_cast<unsigned char>(byte));
      if (state < 0) return false;
    }
    states_.push_back(state);
    return true;
  }

  void truncate(int length) override { states_.resize(idx(length) + 1); }

 private:
  static constexpr int ended = -1;

  std::vector<std::uint32_t> mask_of(int state) const {
    std::vector<std::uint32_t> mask((tokens_->pieces.size() + 31) / 32);
    const auto allow = [&](Token token) { mask[idx(token) / 32] |= std::uint32_t{1} << (token % 32); };
    if (automaton_.states[idx(state)].accepts) {
      for (const Token end : tokens_->ends) allow(end);
    }
    std::vector<int> after = {state};  // each byte of the entry at hand
    for (std::size_t i = 0; i < tokens_->entries.size();) {
      const SortedTokens::Entry& entry = tokens_->entries[i];
      const std::string& piece = tokens_->pieces[idx(entry.token)];
      after.resize(std::min(after.size(), idx(entry.common) + 1));
      while (after.size() <= piece.size() && after.back() >= 0)
        after.push_back(automaton_.next(after.back(), static_cast<unsigned char>(piece[after.size() - 1])));
      if (after.back() < 0) {
        i = skip(i, after.size() - 1);
        after.pop_back();
      } else {
        allow(entry.token);
        ++i;
      }
    }
    return mask;
  }

  // The next entry that differs from this one in its first `length` bytes.
  std::size_t skip(std::size_t i, std::size_t length) const {
    i = idx(tokens_->entries[i].next);
    while (i < tokens_->entries.size() && idx(tokens_->entries[i].common) >= length) i = idx(tokens_->entries[i].next);
    return i;
  }

  const ByteAutomaton automaton_;
  const std::shared_ptr<const SortedTokens> tokens_;
  std::vector<int> states_ = {0};  // after each token
  std::unordered_map<int, std::vector<std::uint32_t>> masks_;
};

class EitherConstraint final : public sampling::Constraint {
 public:
  EitherConstraint(std::unique_ptr<sampling::Constraint> one, std::unique_ptr<sampling::Constraint> other)
      : parts_{{std::move(one)}, {std::move(other)}} {}

  int vocabulary_size() const override { return parts_[0].constraint->vocabulary_size(); }

  void write_mask(std::uint32_t* words) override {
    std::vector<std::uint32_t> mask((idx(vocabulary_size()) + 31) / 32);
    for (Part& part : parts_) {
      if (part.length < length_) continue;
      std::fill(mask.begin(), mask.end(), 0u);
      part.constraint->write_mask(mask.data());
      for (std::size_t i = 0; i < mask.size(); ++i) words[i] |= mask[i];
    }
  }

  bool advance(Token token) override {
    bool is_allowed = false;
    for (Part& part : parts_) {
      if (part.length < length_ || !part.constraint->advance(token)) continue;
      ++part.length;
      is_allowed = true;
    }
    if (is_allowed) ++length_;
    return is_allowed;
  }

  void truncate(int length) override {
    for (Part& part : parts_) {
      if (part.length <= length) continue;
      part.constraint->truncate(length);
      part.length = length;
    }
    length_ = length;
  }

 private:
  struct Part {
    std::unique_ptr<sampling::Constraint> constraint;
    int length = 0;  // tokens that it has read: all, or those before the first that it does not allow
  };
  Part parts_[2];
  int length_ = 0;
};

}  // namespace

SortedTokens::SortedTokens(const std::vector<std::string>& all_pieces, std::vector<Token> all_ends)
    : pieces(all_pieces), ends(std::move(all_ends)) {
  for (Token token = 0; idx(token) < pieces.size(); ++token) {
    const bool is_end = std::find(ends.begin(), ends.end(), token) != ends.end();
    if (!is_end && !pieces[idx(token)].empty()) entries.push_back({token, 0, 0});
  }
  std::sort(entries.begin(), entries.end(), [this](const Entry& left, const Entry& right) {
    return pieces[idx(left.token)] < pieces[idx(right.token)];
  });
  std::vector<std::size_t> open;  // entries that the one at hand begins with
  for (std::size_t i = 0; i <= entries.size(); ++i) {
    if (i > 0 && i < entries.size()) {
      const std::string &before = pieces[idx(entries[i - 1].token)], &piece = pieces[idx(entries[i].token)];
      const auto end = std::mismatch(before.begin(), before.end(), piece.begin(), piece.end()).first;
      entries[i].common = static_cast<int>(end - before.begin());
    }
    while (!open.empty() &&
           (i == entries.size() || idx(entries[i].common) < pieces[idx(entries[open.back()].token)].size())) {
      entries[open.back()].next = static_cast<int>(i);
      open.pop_back();
    }
    open.push_back(i);
  }
}

std::unique_ptr<sampling::Constraint> automaton_constraint(ByteAutomaton automaton,
                                                           std::shared_ptr<const SortedTokens> tokens) {
  return std::make_unique<AutomatonConstraint>(std::move(automaton), std::move(tokens));
}

std::unique_ptr<sampling::Constraint> either_constraint(std::unique_ptr<sampling::Constraint> one,
                                                        std::unique_ptr<sampling::Constraint> other) {
  return std::make_unique<EitherConstraint>(std::move(one), std::move(other));
}

}  // namespace specdec
