// Keeps more prefixes than there are slots: the states of conversations whose slot went to another request, in memory
// and, for later processes, in a folder. A restored prefix gives the same bits as one that was read.
//
// For models with sliding windows, prefixes longer than the window are not kept (llama.cpp saves only the last window).
// For models with recurrent layers, a prefix is used only if the prompt contains all of it: their state cannot go back.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/prefix_folder.h"
#include "engine/prefix_store.h"
#include "engine/slot_states.h"

namespace specdec {

class PrefixCache final : public PrefixStore {
 public:
  struct Options {
    std::uint64_t memory_bytes = 0;        // 0: none are kept in memory
    std::unique_ptr<PrefixFolder> folder;  // null: none
    bool goes_back = true;                 // false: a prefix is only used whole
  };

  PrefixCache(std::unique_ptr<SlotStates> states, Options options);

  int longest_prefix(const Text& prompt, int usable) override;
  bool restore(const Text& prompt, int usable, int slot) override;
  void overwritten(int slot, const Text& text, int length) noexcept override;
  bool idle(int slot, const Text& text, int length) noexcept override;

  std::uint64_t memory_used() const { return memory_used_; }
  std::size_t num_in_memory() const { return kept_.size(); }

 private:
  using Kept = std::shared_ptr<const PrefixFile>;
  using List = std::list<Kept>;
  struct Best {
    int length = 0;
    Kept kept;         // null: in the folder
    std::string name;  // in the folder
  };

  static constexpr int min_length = 32;  // tokens; reading fewer is as fast as restoring them

  Best best_prefix(const Text& prompt, int usable);
  int usable_prefix(const Text& kept, const Text& prompt, int usable) const;
  bool is_worth_keeping(int length) const { return min_length <= length && length < too_long_; }
  bool is_in_folder(const Text& text);
  bool is_in_memory(const Text& text);
  void keep_in_memory(const Kept& prefix);
  List::iterator drop(List::iterator kept);

  const std::unique_ptr<SlotStates> states_;
  Options options_;
  List kept_;  // the last used first
  std::uint64_t memory_used_ = 0;
  int too_long_ = std::numeric_limits<int>::max();  // tokens of the shortest prefix that could not be restored
  std::map<int, Text> in_folder_;                   // by slot: the text that idle() last found there, or wrote
};

}  // namespace specdec
