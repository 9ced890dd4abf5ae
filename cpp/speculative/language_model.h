// What the speculative loop needs of a language model: append tokens, read logits, roll back.
#pragma once

#include <vector>

#include "base/token.h"

namespace specdec {

// Tokens to append to one sequence's KV cache, and how many rows of logits are wanted: those of the last num_rows tokens.
struct PassInput {
  int slot;  // the sequence's place in the cache, 0 .. num_slots - 1
  const Token* tokens;
  int num_tokens;
  int num_rows;
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual int vocabulary_size() const = 0;
  virtual int context_length() const = 0;  // tokens that one sequence's cache can hold
  virtual int batch_size() const = 0;      // tokens that one pass can take, over all sequences
  virtual int row_capacity() const = 0;    // of these, how many can give a row of logits
  virtual bool is_end_of_generation(Token token) const = 0;

  // One pass over all inputs, slots ascending. Afterwards row r of logits (counted over the inputs in order) is valid until the
  // next pass. Throws ModelError or Cancelled; the caches of the sequences named then hold at least what they held before, or
  // nothing where the model cannot go back.
  virtual void decode(const std::vector<PassInput>& inputs) = 0;
  virtual const float* logits(int row) const = 0;  // [vocabulary_size]
  virtual int pass_size() const = 0;               // tokens that the last pass computed, padding included

  virtual int length(int slot) const = 0;  // tokens in the cache
  // Forgets every cached token from `length` on; an absolute length, so that repeating it is harmless.
  virtual void truncate(int slot, int length) = 0;
  // Makes the cache of slot `to` a copy of that of slot `from`.
  virtual void copy(int from, int to) = 0;
};

}  // namespace specdec
