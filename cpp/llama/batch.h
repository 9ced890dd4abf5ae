// The arrays of a llama_batch, refilled for every pass.
#pragma once

#include <vector>

#include "base/token.h"
#include "llama.h"
#include "llama/token_number.h"

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
  void add(Token token, Position position, int slot, bool makes_row) {
    const int i = batch_.n_tokens++;
    batch_.token[i] = token;
    batch_.pos[i] = position.value;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = slot;
    batch_.logits[i] = makes_row ? 1 : 0;
  }
  // Sets hidden rows to read with the tokens, one row per token. They must outlive the batch.
  void read_rows(float* rows) { batch_.embd = rows; }

  // The rows of a picture instead of tokens. positions: of all added ones, section by section [sections][size()].
  llama_batch with_rows(const float* rows, std::vector<int>& positions) const {
    llama_batch batch = batch_;
    batch.token = nullptr;
    batch.embd = const_cast<float*>(rows);
    batch.pos = positions.data();
    return batch;
  }

  int size() const { return batch_.n_tokens; }
  const llama_batch& get() const { return batch_; }

 private:
  llama_batch batch_;
};

}  // namespace specdec
