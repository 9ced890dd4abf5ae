// Keeps what "auto" has learnt between processes: a small file for each pair of models, kind of caches and machine, in
// $XDG_CACHE_HOME/specdec/auto or ~/.cache/specdec/auto. Nothing here fails: without a file, a run starts from nothing.
#pragma once

#include <optional>
#include <string>

#include "speculative/auto/auto_knowledge.h"

namespace specdec {

class AutoCache {
 public:
  // key: whatever costs and acceptance depend on. Does nothing where no folder is known.
  explicit AutoCache(std::string key);

  // None: there is none, or it is damaged, of another version or another key.
  std::optional<AutoKnowledge> read() const noexcept;
  // Atomic: the last of several processes wins. Removes the oldest files beyond a limit.
  void write(const AutoKnowledge& knowledge) const noexcept;

 private:
  std::string key_, folder_, path_;
};

}  // namespace specdec
