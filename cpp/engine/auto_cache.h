// Keeps what "auto" has learnt for later processes: a small file for each pair of models, kind of caches and machine,
// in $XDG_CACHE_HOME/specdec/auto or ~/.cache/specdec/auto. Nothing here fails: without a file, "auto" learns from
// scratch.
#pragma once

#include <optional>
#include <string>

#include "speculative/auto/auto_knowledge.h"

namespace specdec {

class AutoCache {
 public:
  // key: all that costs and acceptance depend on. Without a known folder, nothing is read or written.
  explicit AutoCache(std::string key);

  // nullopt if there is no file, or if it is damaged or has another version or key.
  std::optional<AutoKnowledge> read() const noexcept;
  // Atomic: if several processes write, the last one wins. Removes the oldest files beyond a limit.
  void write(const AutoKnowledge& knowledge) const noexcept;

 private:
  std::string key_, folder_, path_;
};

}  // namespace specdec
