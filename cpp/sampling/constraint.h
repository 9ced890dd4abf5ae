// What an output must obey (a grammar, a schema), expressed as the set of tokens that may come next; and its state
// along one sequence.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sampling/token_mask.h"

namespace specdec::sampling {

// A constraint in the state after the tokens that it has read, at first none.
class Constraint {
 public:
  virtual ~Constraint() = default;

  virtual int vocabulary_size() const = 0;
  // Sets the bits of the tokens that may come next in words [(vocabulary_size + 31) / 32], all zero before.
  // End-of-generation tokens are allowed exactly where the output may end, and nothing after them.
  virtual void write_mask(std::uint32_t* words) = 0;
  // Reads a token. Returns false and changes nothing if it may not come next.
  virtual bool advance(Token token) = 0;
  // Forgets all but the first `length` tokens.
  virtual void truncate(int length) = 0;
};

// Follows a constraint along a sequence whose drafts come and go. If the tokens in question differ from those that the
// constraint has read, the constraint is rolled back. Masks are kept, so that proposing a draft and verifying it
// compute the mask of its place only once.
class ConstraintState {
 public:
  // start: the number of prompt tokens, which the constraint does not read.
  ConstraintState(std::unique_ptr<Constraint> constraint, int start)
      : constraint_(std::move(constraint)), start_(start) {}

  // The tokens that may follow tokens [length], length >= start; valid until the next call. Empty if one of these
  // tokens violates the constraint, and after the constraint has failed.
  const TokenMask& mask(const Token* tokens, int length);

  // The message of what the constraint threw; empty: nothing.
  const std::string& failure() const noexcept { return failure_; }

 private:
  static constexpr int num_kept = 65;  // the rows of the longest pass
  struct KeptMask {
    int length = -1;  // of the output before it; -1: none
    TokenMask mask;
  };
  bool read(const Token* output, int length);
  void roll_back(int length);

  std::unique_ptr<Constraint> constraint_;
  int start_;
  std::vector<Token> read_;               // tokens that the constraint has read
  std::array<KeptMask, num_kept> masks_;  // by length % num_kept
  TokenMask nothing_;
  std::string failure_;
};

}  // namespace specdec::sampling
