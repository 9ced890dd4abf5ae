// Chooses the slot of a request. Each idle slot still caches the tokens of its last request; if they are overwritten,
// the next turn of that conversation has to read them again.
//
// The slot with the lowest cost is chosen: the tokens that are lost, plus the work of giving the slot the longest
// cached prefix of the prompt. Lost tokens count less the longer their slot was not used: they age by as much as was
// lost since then in slots that were older or held less (the GreedyDual policy of Young, 1994). So a side request takes
// an empty slot or that of the last side request, and no conversation keeps a slot for ever because it is long.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/index.h"
#include "speculative/text.h"

namespace specdec {

class SlotChoice {
 public:
  struct Slot {
    bool is_free = true;
    const Text* text = nullptr;  // null: none
    int length = 0;              // how much of the text is in the cache
    int number = 0;              // 0 .. num_slots - 1; follows the contents to another place
    int usable = length;         // how much of the cached text the prompt may begin with
  };
  struct Chosen {
    int slot;           // its index in the list
    int prefix;         // how many tokens of the prompt its cache begins with
    int source;         // the slot that has the longest prefix of the prompt, if copying it is worth its time; -1: none
    int source_prefix;  // that prefix; -1: none
  };

  explicit SlotChoice(int num_slots) : uses_(idx(num_slots)) {}

  // usable: how many tokens of the prompt need not be read if they are cached. stored: the length of the prompt's
  // longest prefix that is kept outside the slots. Nullopt: no slot is free.
  std::optional<Chosen> choose(const Text& prompt, int usable, const std::vector<Slot>& slots, int stored = 0);

  // Call this when a request begins or ends in the slot with this number.
  void use(int number) noexcept;

 private:
  struct Use {
    std::int64_t time = 0;  // of the last use, counted in uses
    std::int64_t lost = 0;  // lost_ at that time
  };

  std::vector<Use> uses_;  // by number
  std::int64_t num_uses_ = 0;
  std::int64_t lost_ = 0;  // GreedyDual's clock: tokens
};

// Copying a prefix from another slot takes about as long as reading this many tokens.
constexpr int worth_copying = 32;

}  // namespace specdec
