// Which slot a request takes. Each idle slot still caches the tokens of its last request, which the next turn of that
// conversation would have to read again if they were overwritten.
//
// A slot is chosen by what that costs: the tokens that are lost, plus the work of giving the slot the longest cached
// prefix of the prompt. What is lost counts less the longer the slot was not used: it ages by as much as was lost since
// in slots that were older or held less (the GreedyDual policy of Young, 1994). A side request so takes an empty slot,
// or that of the last side request, and no conversation keeps a slot for ever because it is long.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/token.h"

namespace specdec {

// The number of tokens that both begin with, at most `most`.
int common_prefix(const std::vector<Token>& a, const std::vector<Token>& b, int most);

class SlotChoice {
 public:
  struct Slot {
    bool is_free = true;
    const std::vector<Token>* tokens = nullptr;  // null: none
    int length = 0;                              // of the tokens, those in the cache
  };
  struct Chosen {
    int slot;
    int prefix;         // tokens of the prompt that its cache begins with
    int source;         // the slot that has the longest prefix of the prompt, if copying it is worth its time; -1: none
    int source_prefix;  // that prefix; -1: none
  };

  explicit SlotChoice(int num_slots) : uses_(idx(num_slots)) {}

  // For a prompt of which at most `usable` tokens need not be read. stored: the length of its longest prefix that is
  // kept outside of the slots. Nullopt: no slot is free.
  std::optional<Chosen> choose(const std::vector<Token>& prompt, int usable, const std::vector<Slot>& slots,
                               int stored = 0);

  // The slot's tokens were used: its request begins, or has ended.
  void use(int slot);
  // What one holds is in the other now.
  void exchange(int slot, int other) { std::swap(uses_[idx(slot)], uses_[idx(other)]); }

 private:
  struct Use {
    std::int64_t number = 0;  // of the last use
    std::int64_t lost = 0;    // lost_ at that time
  };

  std::vector<Use> uses_;
  std::int64_t num_uses_ = 0;
  std::int64_t lost_ = 0;  // GreedyDual's clock: tokens
};

// Tokens: copying a prefix from another slot takes about as long as reading so many.
constexpr int worth_copying = 32;

}  // namespace specdec
