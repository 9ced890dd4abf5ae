// What each slot caches: a place in the models' caches, and the request whose tokens they hold. A label and its cache
// cannot disagree, because every change has three steps: the slot becomes empty here, the caches change, and only then
// is the new label written. Whatever throws in between leaves an empty slot.
//
//   empty  nothing is known about the caches; they are emptied before anything is put there
//   idle   holds the first length() tokens of a request that has ended
//   busy   likewise, of a request that reads its prompt or generates: the caches follow its tokens (Decoder)
//
// A slot has a place (its index in the caches) and a number (by which users know it), which follows its contents when
// they move to another place.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "engine/scheduled_request.h"
#include "speculative/slot_caches.h"

namespace specdec {

class SlotLedger {
 public:
  enum class State { empty, idle, busy };
  using Holder = std::shared_ptr<ScheduledRequest>;

  // caches: must outlive the ledger.
  SlotLedger(SlotCaches& caches, int num_slots);

  int size() const { return static_cast<int>(slots_.size()); }
  State state(int place) const;
  bool is_busy(int place) const { return state(place) == State::busy; }
  const Holder& holder(int place) const { return slots_[idx(place)].holder; }  // null: empty
  const Text* text(int place) const;  // of the holder, of which length() places are cached; null: empty
  int length(int place) const { return holder(place) ? caches_.num_cached(place) : 0; }
  bool holds(int place, const ScheduledRequest& request) const {
    return 0 <= place && place < size() && holder(place).get() == &request;
  }
  int number(int place) const { return slots_[idx(place)].number; }
  int place_of(int number) const;

  // A change of a slot that is not busy; others may be looked at meanwhile. Without commit() the slot is empty in the
  // end.
  class Change {
   public:
    // The slot is empty from now on. Its caches are as before, until fill() is called.
    Change(SlotLedger& ledger, int place);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

    // Replaces the contents of the caches by calling `how`. Returns false, and the caches are empty, if it returns
    // false or throws anything but Cancelled.
    template <class How>
    bool fill(How&& how) {
      try {
        if (how()) return true;
      } catch (const Cancelled&) {
        throw;
      } catch (...) {  // whoever gets the slot reads its tokens again
      }
      ledger_.caches_.keep_prefix(place_, 0);
      return false;
    }
    // Truncates the caches to what another text that begins with the same `length` tokens may use; returns how many
    // these are: 0 if truncating fails.
    int keep(int length);
    // The caches now hold a prefix of the holder's tokens.
    void commit(Holder holder) noexcept;

   private:
    SlotLedger& ledger_;
    const int place_;
    bool is_committed_ = false;
  };

  // Empties a slot, also one whose request has just failed.
  void clear(int place) noexcept;
  // Moves a slot's contents, request and number to another place, whose contents are lost; the two exchange numbers. If
  // it throws, the slot is as before and the other place empty.
  void move(int from, int to);

 private:
  struct Slot {
    Holder holder;
    int number;
  };
  void invalidate(int place) noexcept { slots_[idx(place)].holder.reset(); }

  SlotCaches& caches_;
  std::vector<Slot> slots_;
};

}  // namespace specdec
