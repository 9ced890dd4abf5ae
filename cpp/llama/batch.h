// The arrays of a llama_batch, refilled for every pass.
#pragma once

#include "base/token.h"
#include "llama.h"

namespace specdec {

class Batch {
 public:
  explicit Batch(int capacity) : batch_(llama_batch_init(capacity, 0, 1)) {}
  ~Batch() {
    batch_.embd = nullptr;
    llama_batch_free(batch_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void clear() { batch_.n_tokens = 0; }
  void add(Token token, int position, int slot, bool makes_row) {
    const int i = batch_.n_tokens++;
    batch_.token[i] = token;
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = slot;
    batch_.logits[i] = makes_row ? 1 : 0;
  }
  // Sets hidden rows to read with the tokens, one row per token. They must outlive the batch.
  void read_rows(float* rows) { batch_.embd = rows; }

  int size() const { return batch_.n_tokens; }
  const llama_batch& get() const { return batch_; }

 private:
  llama_batch batch_;
};

}  // namespace specdec
