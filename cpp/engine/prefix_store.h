// Where the scheduler leaves what idle slots cache before their slot is overwritten, and looks for the beginning of a
// new prompt.
#pragma once

#include <vector>

#include "base/token.h"

namespace specdec {

class PrefixStore {
 public:
  virtual ~PrefixStore() = default;

  // How many tokens of the prompt the best kept prefix has, at most `usable`.
  virtual int longest_prefix(const std::vector<Token>& prompt, int usable) = 0;
  // Fills the slot with what longest_prefix() found, tokens that the prompt does not have included. Returns false, with
  // an empty slot, if that cannot be used after all.
  virtual bool restore(const std::vector<Token>& prompt, int usable, int slot) = 0;

  // The slot caches the first `length` of these tokens, and is needed for others. Does not throw: a prefix that cannot
  // be kept is read again.
  virtual void overwritten(int slot, const std::vector<Token>& tokens, int length) noexcept = 0;
  // The same while no request runs, so that there is time to keep it for later processes. Returns false if it has to be
  // asked again later.
  virtual bool idle(int slot, const std::vector<Token>& tokens, int length) noexcept = 0;
};

}  // namespace specdec
