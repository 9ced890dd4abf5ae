// Where the scheduler puts what an idle slot caches before the slot is overwritten, and where it looks for the
// beginning of a new prompt.
#pragma once

#include <vector>

#include "base/token.h"

namespace specdec {

// An interface, so that the scheduler is tested without models and files.
class PrefixStore {
 public:
  virtual ~PrefixStore() = default;

  // How many tokens of the prompt the best kept prefix covers, at most `usable`.
  virtual int longest_prefix(const std::vector<Token>& prompt, int usable) = 0;
  // Fills the slot with the prefix that longest_prefix() found, including tokens that the prompt does not have. Returns
  // false and leaves the slot empty if the prefix turns out to be unusable.
  virtual bool restore(const std::vector<Token>& prompt, int usable, int slot) = 0;

  // Called when a slot that caches the first `length` of these tokens is about to be overwritten. Does not throw: a
  // prefix that cannot be kept is read again.
  virtual void overwritten(int slot, const std::vector<Token>& tokens, int length) noexcept = 0;
  // The same while no request runs, so that there is time to save the prefix for later processes. Returns false if it
  // must be called again later.
  virtual bool idle(int slot, const std::vector<Token>& tokens, int length) noexcept = 0;
};

}  // namespace specdec
