// Prefixes of conversations outside the slots: in files that a user names, and kept while their slot serves others
// (engine/prefix_cache.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/executor.h"
#include "engine/generator_options.h"
#include "engine/loaded_models.h"
#include "engine/prefix_cache.h"
#include "engine/request_handle.h"
#include "engine/scheduler.h"
#include "engine/slot_states.h"

namespace specdec {

struct SlotBusy : Error {
  using Error::Error;
};

// Its functions are commands: they run between two passes; the caller, on any thread, waits for them. They throw
// Cancelled once the executor is closed.
class SavedPrefixes {
 public:
  // All must outlive this; nothing is kept until keep(). executor: not null once a function is called.
  SavedPrefixes(const GeneratorOptions& options, LoadedModels& models, Decoder& decoder, Scheduler& scheduler,
                const std::unique_ptr<Executor>& executor);

  // Writes what is cached of a request's prompt and of its output so far. Returns the number of tokens. Throws Error.
  int save(const RequestHandle& request, const std::string& path);
  // Fills the caches of a free slot (of `slot`, if given) from a file. A request that begins with the file's tokens
  // does not read them again; its output has the same bits. Returns the number of tokens. Throws UnusableFile for a
  // file that is damaged or of other models or options, SlotBusy while no slot is free.
  int load(const std::string& path, std::optional<int> slot = std::nullopt);
  // Save the caches of a slot (Request::slot) as save() does, or empty them. Return the number of tokens. Throw Error;
  // SlotBusy while a request runs there.
  int save_slot(int slot, const std::string& path);
  int erase_slot(int slot);

  struct Kept {
    std::uint64_t memory_bytes = 0;  // 0: none in memory
    std::string folder;              // for later processes; empty: none
    std::uint64_t folder_bytes = 0;
  };
  // Keeps prefixes of idle conversations when their slot is needed. note: called, on any thread, with what could not be
  // kept. Throws Error if the folder does not exist and cannot be made.
  void keep(const Kept& options, std::function<void(const std::string&)> note);

 private:
  int write(PrefixFile prefix, const std::string& path) const;
  void check_slot(int slot) const;
  const ScheduledRequest* idle_in(int slot) const;

  const GeneratorOptions& options_;
  LoadedModels& models_;
  Scheduler& scheduler_;
  const std::unique_ptr<Executor>& executor_;
  ModelStates states_;
  std::unique_ptr<PrefixCache> cache_;     // null: none are kept
  std::atomic<std::int64_t> next_id_{-1};  // of the requests that stand for loaded prefixes
};

}  // namespace specdec
