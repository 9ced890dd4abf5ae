// The caches of all models, by slot, for whoever keeps account of what they hold (engine/slot_ledger.h).
#pragma once

namespace specdec {

// An interface, so that tests make each step fail in turn.
class SlotCaches {
 public:
  virtual ~SlotCaches() = default;

  virtual int num_cached(int slot) const = 0;  // tokens in the target's cache
  // Copies the first `length` cached tokens of slot `from` to slot `to`. If it throws, `from` is as before, and what
  // `to` holds is unknown.
  virtual void copy_prefix(int from, int to, int length) = 0;
  // Truncates a slot's caches to at most `length` tokens. Returns the length of the target's cache.
  virtual int keep_prefix(int slot, int length) = 0;
  // The same, limited to what another text may begin with.
  virtual int reuse_prefix(int slot, int length) = 0;
};

}  // namespace specdec
