// A constraint small enough to enumerate: the tokens that may come next are a function of the output so far.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sampling/constraint.h"

namespace toy {

using specdec::Token;
// Bit t: token t may follow the output. At most 32 tokens.
using Allowed = std::function<std::uint32_t(const std::vector<Token>& output)>;

class Constraint final : public specdec::sampling::Constraint {
 public:
  Constraint(int vocabulary, Allowed allowed) : vocabulary_(vocabulary), allowed_(std::move(allowed)) {}

  int vocabulary_size() const override { return vocabulary_; }
  void write_mask(std::uint32_t* words) override {
    ++num_masks;
    if (fails) throw std::runtime_error("out of order");
    words[0] = allowed_(output_);
  }
  bool advance(Token token) override {
    if (!forgets_to_roll_back && (allowed_(output_) >> token & 1u) == 0) return false;
    output_.push_back(token);
    return true;
  }
  void truncate(int length) override {
    if (!forgets_to_roll_back) output_.resize(static_cast<std::size_t>(length));
  }

  bool forgets_to_roll_back = false;  // a negative control; it then reads any token
  bool fails = false;
  int num_masks = 0;

 private:
  int vocabulary_;
  Allowed allowed_;
  std::vector<Token> output_;
};

}  // namespace toy
