#include "engine/prefix_cache.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace specdec {
namespace {

std::uint64_t bytes_of(const PrefixFile& prefix) {
  return prefix.target_state.size() + prefix.draft_state.size() + prefix.text.tokens.size() * sizeof(Token);
}

}  // namespace

PrefixCache::PrefixCache(std::unique_ptr<SlotStates> states, Options options)
    : states_(std::move(states)), options_(std::move(options)) {}

int PrefixCache::usable_prefix(const Text& kept, const Text& prompt, int usable) const {
  const int length = common_prefix(kept, prompt, usable);
  const bool is_usable = options_.goes_back || length == kept.length();
  return is_usable && length >= min_length ? length : 0;
}

PrefixCache::Best PrefixCache::best_prefix(const Text& prompt, int usable) {
  Best best;
  for (const Kept& kept : kept_) {
    const int length = usable_prefix(kept->text, prompt, usable);
    if (length > best.length) best = {length, kept, ""};
  }
  if (!options_.folder) return best;
  for (const auto& [name, text] : options_.folder->prefixes()) {
    const int length = usable_prefix(text, prompt, usable);
    if (length > best.length && text.length() < too_long_) best = {length, nullptr, name};
  }
  return best;
}

int PrefixCache::longest_prefix(const Text& prompt, int usable) { return best_prefix(prompt, usable).length; }

bool PrefixCache::restore(const Text& prompt, int usable, int slot) {
  Best best = best_prefix(prompt, usable);
  if (best.length == 0) return false;
  const bool is_kept = best.kept != nullptr;
  if (!is_kept) {
    std::optional<PrefixFile> file = options_.folder->read(best.name);
    if (!file) return false;
    best.kept = std::make_shared<const PrefixFile>(std::move(*file));
  }
  const bool is_restored = states_->restore(slot, *best.kept);
  if (!is_restored) too_long_ = std::min(too_long_, best.kept->text.length());
  if (is_kept) {
    const auto kept = std::find(kept_.begin(), kept_.end(), best.kept);
    kept_.splice(kept_.begin(), kept_, kept);
    if (!is_restored) drop(kept);
  } else if (is_restored) {
    keep_in_memory(best.kept);
  }
  return is_restored;
}

PrefixCache::List::iterator PrefixCache::drop(List::iterator kept) {
  memory_used_ -= bytes_of(**kept);
  return kept_.erase(kept);
}

// Drops prefixes that this one begins with, since they are no longer needed, then the least recently used.
void PrefixCache::keep_in_memory(const Kept& prefix) {
  const std::uint64_t bytes = bytes_of(*prefix);
  if (bytes > options_.memory_bytes) return;
  List added;
  try {
    added.push_back(prefix);
  } catch (const std::bad_alloc&) {
    return;
  }
  for (auto kept = kept_.begin(); kept != kept_.end();)
    kept = begins_with(prefix->text, (*kept)->text) ? drop(kept) : std::next(kept);
  while (memory_used_ + bytes > options_.memory_bytes) drop(std::prev(kept_.end()));
  kept_.splice(kept_.begin(), added);
  memory_used_ += bytes;
}

bool PrefixCache::is_in_memory(const Text& text) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return begins_with(kept->text, text); });
  if (found == kept_.end()) return false;
  kept_.splice(kept_.begin(), kept_, found);
  return true;
}

bool PrefixCache::is_in_folder(const Text& text) {
  const auto& prefixes = options_.folder->prefixes();
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const auto& prefix) { return begins_with(prefix.second, text); });
}

void PrefixCache::overwritten(int slot, const Text& text, int length) noexcept {
  try {
    in_folder_.erase(slot);
    if (options_.memory_bytes == 0 || !is_worth_keeping(length) || is_in_memory(prefix_of(text, length))) return;
    keep_in_memory(std::make_shared<const PrefixFile>(states_->save(slot, text, length)));
  } catch (...) {  // no memory, or the draft's head was interrupted
  }
}

bool PrefixCache::idle(int slot, const Text& text, int length) noexcept {
  try {
    if (!options_.folder || !is_worth_keeping(length)) return true;
    Text cached = prefix_of(text, length);
    if (const Text& known = in_folder_[slot]; known.length() == length && begins_with(known, cached)) return true;
    if (!is_in_folder(cached)) {
      if (options_.folder->has_waiting()) return false;  // one at a time: each takes memory until it is written
      options_.folder->write(states_->save(slot, text, length));
    }
    in_folder_[slot] = std::move(cached);
  } catch (...) {  // as above
  }
  return true;
}

}  // namespace specdec
