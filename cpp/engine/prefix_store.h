// Where the scheduler puts what an idle slot caches before the slot is overwritten, and where it looks for the
// beginning of a new prompt.
#pragma once

#include "speculative/text.h"

namespace specdec {

// An interface, so that the scheduler is tested without models and files.
class PrefixStore {
 public:
  virtual ~PrefixStore() = default;

  // How much of the prompt the best kept prefix covers, at most `usable`.
  virtual int longest_prefix(const Text& prompt, int usable) = 0;
  // Fills the slot with the prefix that longest_prefix() found, including what the prompt does not have. Returns
  // false and leaves the slot empty if the prefix turns out to be unusable.
  virtual bool restore(const Text& prompt, int usable, int slot) = 0;

  // Called when a slot that caches the first `length` places of this text is about to be overwritten. Does not throw: a
  // prefix that cannot be kept is read again.
  virtual void overwritten(int slot, const Text& text, int length) noexcept = 0;
  // The same while no request runs, so that there is time to save the prefix for later processes. Returns false if it
  // must be called again later.
  virtual bool idle(int slot, const Text& text, int length) noexcept = 0;
};

}  // namespace specdec
