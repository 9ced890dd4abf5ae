#include "engine/slot_choice.h"

#include <algorithm>
#include <tuple>

#include "base/index.h"

namespace specdec {
namespace {

int prefix_in(const SlotChoice::Slot& slot, const Text& text, int most) {
  return slot.text == nullptr ? 0 : common_prefix(*slot.text, text, std::min(most, slot.length));
}

// How many of a slot's cached tokens another slot also holds.
int held_elsewhere(const std::vector<SlotChoice::Slot>& slots, std::size_t slot) {
  int most = 0;
  for (std::size_t other = 0; other < slots.size(); ++other) {
    if (other != slot && slots[slot].text != nullptr) {
      most = std::max(most, prefix_in(slots[other], *slots[slot].text, slots[slot].length));
    }
  }
  return most;
}

}  // namespace

std::optional<SlotChoice::Chosen> SlotChoice::choose(const Text& prompt, int usable, const std::vector<Slot>& slots,
                                                     int stored) {
  std::vector<int> prefixes;
  for (const Slot& slot : slots) prefixes.push_back(prefix_in(slot, prompt, std::min(usable, slot.usable)));
  const auto source = std::max_element(prefixes.begin(), prefixes.end());
  const int longest = std::max(*source, stored);

  using Cost =
      std::tuple<std::int64_t, bool, std::int64_t>;  // equal costs: an empty slot, then the least recently used
  std::optional<Chosen> chosen;
  std::int64_t ages_to = lost_;
  Cost least;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].is_free) continue;
    const std::int64_t lost =
        slots[i].length - std::min(slots[i].length, std::max(prefixes[i], held_elsewhere(slots, i)));
    const Use& use = uses_[idx(slots[i].number)];
    const std::int64_t value = std::max<std::int64_t>(0, use.lost + lost - lost_);
    const Cost cost(value + std::min(longest - prefixes[i], worth_copying), slots[i].length > 0, use.time);
    if (chosen && cost >= least) continue;
    least = cost;
    ages_to = lost_ + value;
    chosen = Chosen{static_cast<int>(i), prefixes[i], -1, -1};
  }
  if (!chosen) return std::nullopt;
  lost_ = ages_to;
  if (*source >= chosen->prefix + worth_copying) {
    chosen->source = static_cast<int>(source - prefixes.begin());
    chosen->source_prefix = *source;
  }
  return chosen;
}

void SlotChoice::use(int number) noexcept { uses_[idx(number)] = {++num_uses_, lost_}; }

}  // namespace specdec
