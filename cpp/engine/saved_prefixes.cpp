#include "engine/saved_prefixes.h"

#include <algorithm>
#include <utility>

#include "base/argument.h"
#include "base/error.h"
#include "engine/cache_key.h"
#include "engine/prompt.h"

namespace specdec {

SavedPrefixes::SavedPrefixes(const GeneratorOptions& options, LoadedModels& models, Decoder& decoder,
                             Scheduler& scheduler, const std::unique_ptr<Executor>& executor)
    : options_(options),
      models_(models),
      scheduler_(scheduler),
      executor_(executor),
      states_(decoder, models.target_context(), models.draft_contexts(), models.head()) {
  scheduler_.set_slot_states(&states_);
}

int SavedPrefixes::save(const RequestHandle& request, const std::string& path) {
  PrefixFile prefix;
  executor_->run([&] {
    const ScheduledRequest& saved = *request.request();
    const int count = scheduler_.is_cached(saved) ? scheduler_.num_cached(saved) : 0;
    if (count > 0) prefix = states_.save(saved.sequence().slot, saved.sequence(), count);
  });
  return write(std::move(prefix), path);
}

int SavedPrefixes::write(PrefixFile prefix, const std::string& path) const {
  if (prefix.text.tokens.empty()) throw Error("there is no cached prompt to save to " + path + "; generate first");
  prefix.target_key = target_cache_key(options_, models_).text();
  if (prefix.num_draft_tokens > 0) prefix.draft_key = draft_cache_key(options_, models_).text();
  write_prefix_file(path, prefix);
  return prefix.text.length();
}

void SavedPrefixes::check_slot(int slot) const {
  check_range("slot", slot, whole_numbers(0, scheduler_.num_slots() - 1));
}

const ScheduledRequest* SavedPrefixes::idle_in(int slot) const {
  const ScheduledRequest* const request = scheduler_.in_slot(slot);
  if (request == nullptr || !request->has_slot()) return request;
  throw SlotBusy("slot " + std::to_string(slot) + " is in use; wait for its request to end");
}

int SavedPrefixes::save_slot(int slot, const std::string& path) {
  check_slot(slot);
  PrefixFile prefix;
  executor_->run([&] {
    const ScheduledRequest* const saved = idle_in(slot);
    const int count = saved == nullptr ? 0 : scheduler_.num_cached(*saved);
    if (count > 0) prefix = states_.save(saved->sequence().slot, saved->sequence(), count);
  });
  return write(std::move(prefix), path);
}

int SavedPrefixes::erase_slot(int slot) {
  check_slot(slot);
  int count = 0;
  executor_->run([&] {
    (void)idle_in(slot);
    count = scheduler_.erase(slot);
  });
  return count;
}

int SavedPrefixes::load(const std::string& path, std::optional<int> slot) {
  if (slot) check_slot(*slot);
  PrefixFile prefix = read_prefix_file(path);
  if (prefix.target_key != target_cache_key(options_, models_).text())
    throw UnusableFile(path + ": is for another model, kind of cache, processor or layer placement");
  const int count = prefix.text.length(), n_ctx = models_.n_ctx();
  if (count > n_ctx) {
    throw UnusableFile(path + ": has " + std::to_string(count) + " tokens, and the context " + std::to_string(n_ctx));
  }
  check_tokens("a token of " + path, prefix.text, models_.token_ids());
  const bool has_draft_state =
      models_.draft() != nullptr && prefix.draft_key == draft_cache_key(options_, models_).text();
  if (!has_draft_state) prefix.num_draft_tokens = 0;  // the draft reads the prompt
  Request holding;
  holding.slot = slot;
  const auto holder = std::make_shared<ScheduledRequest>(next_id_--, holding, prefix.text, 0, 0);
  bool is_restored = false;
  executor_->run([&] {
    const auto fill = [&](int place) { return is_restored = states_.restore(place, prefix); };
    if (!scheduler_.adopt(holder, fill))
      throw SlotBusy(path + " cannot be loaded while requests use all slots; wait for one to end");
  });
  if (!is_restored) {
    throw UnusableFile(path +
                       ": lacks tokens that had left a sliding window of this model, or is of another kind of cache");
  }
  return count;
}

void SavedPrefixes::keep(const Kept& options, std::function<void(const std::string&)> note) {
  PrefixCache::Options cache;
  cache.memory_bytes = options.memory_bytes;
  const auto& drafts = models_.draft_contexts();
  if (!options.folder.empty()) {
    const std::string draft_key = drafts.empty() ? "" : draft_cache_key(options_, models_).text();
    cache.folder = std::make_unique<PrefixFolder>(
        options.folder, options.folder_bytes, target_cache_key(options_, models_).text(), draft_key, std::move(note));
  }
  const auto is_recurrent = [](const auto& draft) { return draft->has_recurrent_layers(); };
  cache.goes_back =
      !models_.target_context().has_recurrent_layers() && std::none_of(drafts.begin(), drafts.end(), is_recurrent);
  executor_->run([&] {
    cache_ = std::make_unique<PrefixCache>(std::make_unique<ModelStates>(states_), std::move(cache));
    scheduler_.set_prefix_store(cache_.get());
  });
}

}  // namespace specdec
