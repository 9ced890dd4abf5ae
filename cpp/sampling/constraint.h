// What an output must obey (a grammar, a schema), as the set of tokens that may come next; and its state along one
// sequence.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sampling/token_mask.h"

namespace specdec::sampling {

// The state after the tokens that it has read; none at first.
class Constraint {
 public:
  virtual ~Constraint() = default;

  virtual int vocabulary_size() const = 0;
  // Sets the bits of the tokens that may come next in words [(vocabulary_size + 31) / 32], all zero before.
  // End-of-generation tokens may come exactly where the output may end, and nothing after them.
  virtual void write_mask(std::uint32_t* words) = 0;
  // Reads a token. Returns false, and nothing changes, if it may not come next.
  virtual bool advance(Token token) = 0;
  // Forgets all but the first `length` tokens.
  virtual void truncate(int length) = 0;
};

// A constraint along a sequence whose drafts come and go: it follows the tokens that it is asked about. Where they
// differ from those that the constraint has read, the constraint is rolled back. Masks are kept, so that proposing a
// draft and verifying it compute the mask of its place once.
class ConstraintState {
 public:
  // start: tokens of the prompt, which the constraint does not read.
  ConstraintState(std::unique_ptr<Constraint> constraint, int start)
      : constraint_(std::move(constraint)), start_(start) {}

  // What may follow tokens [length], length >= start; valid until the next call. Empty where one of these tokens breaks
  // the constraint, and after the constraint failed.
  const TokenMask& mask(const Token* tokens, int length);

  // What the constraint threw, in words; empty: nothing.
  const std::string& failure() const noexcept { return failure_; }

 private:
  static constexpr int num_kept = 65;  // the rows of the longest pass
  struct KeptMask {
    int length = -1;  // of the output that it follows; -1: none
    TokenMask mask;
  };
  bool read(const Token* output, int length);
  void roll_back(int length);

  std::unique_ptr<Constraint> constraint_;
  int start_;
  std::vector<Token> read_;               // by the constraint
  std::array<KeptMask, num_kept> masks_;  // by length % num_kept
  TokenMask nothing_;
  std::string failure_;
};

}  // namespace specdec::sampling
