#include "engine/slot_ledger.h"

#include <algorithm>
#include <stdexcept>

namespace specdec {

SlotLedger::SlotLedger(SlotCaches& caches, int num_slots) : caches_(caches) {
  for (int place = 0; place < num_slots; ++place) slots_.push_back({nullptr, place});
}

SlotLedger::State SlotLedger::state(int place) const {
  const Holder& request = holder(place);
  if (!request) return State::empty;
  return request->has_slot() ? State::busy : State::idle;
}

const Text* SlotLedger::text(int place) const { return holder(place) ? &holder(place)->sequence() : nullptr; }

int SlotLedger::place_of(int number) const {
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [number](const Slot& slot) { return slot.number == number; });
  return static_cast<int>(found - slots_.begin());
}

SlotLedger::Change::Change(SlotLedger& ledger, int place) : ledger_(ledger), place_(place) {
  if (ledger.is_busy(place)) throw std::logic_error("a slot changes while its request runs");
  if (ledger.state(place) == State::empty) ledger.caches_.keep_prefix(place, 0);
  ledger.invalidate(place);
}

SlotLedger::Change::~Change() {
  if (!is_committed_) ledger_.clear(place_);
}

int SlotLedger::Change::keep(int length) {
  int kept = 0;
  (void)fill([&] {
    kept = ledger_.caches_.reuse_prefix(place_, length);
    return true;
  });
  return kept;
}

void SlotLedger::Change::commit(Holder holder) noexcept {
  holder->sequence().slot = place_;
  ledger_.slots_[idx(place_)].holder = std::move(holder);
  is_committed_ = true;
}

void SlotLedger::clear(int place) noexcept {
  invalidate(place);
  try {
    caches_.keep_prefix(place, 0);
  } catch (...) {  // the next change tries again
  }
}

void SlotLedger::move(int from, int to) {
  const Holder moved = holder(from);
  if (!moved) throw std::logic_error("an empty slot has nothing to move");
  {
    Change change(*this, to);
    caches_.copy_prefix(from, to, caches_.num_cached(from));
    change.commit(moved);
  }
  std::swap(slots_[idx(from)].number, slots_[idx(to)].number);
  clear(from);
}

}  // namespace specdec
