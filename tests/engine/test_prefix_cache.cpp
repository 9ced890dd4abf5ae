// Prefixes kept outside of the slots: in memory and in a folder. States are toys: the tokens themselves.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "check.h"
#include "engine/cache_key.h"
#include "engine/prefix_cache.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;
namespace fs = std::filesystem;

Tokens conversation(int id, int length) {
  Tokens tokens;
  for (int i = 0; i < length; ++i) tokens.push_back(i < 3 ? i : 1000 * (id + 1) + i);
  return tokens;
}

constexpr int bytes_per_token = 100;

class ToyStates final : public SlotStates {
 public:
  explicit ToyStates(std::vector<Tokens>& slots, int window) : slots_(slots), window_(window) {}

  PrefixFile save(int slot, const Text& text, int length) override {
    const Tokens& tokens = text.tokens;
    const Tokens& cached = slots_.at(static_cast<std::size_t>(slot));
    CHECK(static_cast<int>(cached.size()) == length && std::equal(cached.begin(), cached.end(), tokens.begin()));
    PrefixFile prefix;
    prefix.text = cached;
    prefix.target_state.assign(cached.size() * bytes_per_token, 'x');
    std::memcpy(prefix.target_state.data(), cached.data(), cached.size() * sizeof(Token));
    return prefix;
  }
  bool restore(int slot, const PrefixFile& prefix) override {
    Tokens& cached = slots_.at(static_cast<std::size_t>(slot));
    cached.clear();
    if (static_cast<int>(prefix.text.tokens.size()) > window_) return false;
    cached.resize(prefix.text.tokens.size());
    std::memcpy(cached.data(), prefix.target_state.data(), cached.size() * sizeof(Token));
    CHECK(cached == prefix.text.tokens);
    return true;
  }

 private:
  std::vector<Tokens>& slots_;
  const int window_;
};

struct SavedPrefixes {
  SavedPrefixes() : path(fs::temp_directory_path() / ("prefixes-" + std::to_string(std::random_device()()))) {}
  ~SavedPrefixes() { fs::remove_all(path); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& file : fs::directory_iterator(path)) found.push_back(file.path());
    return found;
  }
  const fs::path path;
};

struct Machine {
  explicit Machine(std::uint64_t memory, const fs::path& folder = {}, std::uint64_t room = 1u << 30,
                   int window = 1 << 20, bool goes_back = true, const std::string& key = "model") {
    PrefixCache::Options options;
    options.memory_bytes = memory;
    options.goes_back = goes_back;
    if (!folder.empty()) {
      const auto note = [this](const std::string& text) { notes.push_back(text); };
      options.folder = std::make_unique<PrefixFolder>(folder.string(), room, key, "", note);
    }
    cache = std::make_unique<PrefixCache>(std::make_unique<ToyStates>(slots, window), std::move(options));
  }

  void overwrite(const Tokens& tokens) {
    slots[0] = tokens;
    cache->overwritten(0, tokens, static_cast<int>(tokens.size()));
    slots[0].clear();
  }
  void keep_idle(const Tokens& tokens) {
    slots[1] = tokens;
    while (!cache->idle(1, tokens, static_cast<int>(tokens.size()))) std::this_thread::yield();
  }
  // Tokens of the prompt that are in the slot afterwards.
  int restore(const Tokens& prompt) {
    const int usable = static_cast<int>(prompt.size()) - 1;
    const int length = cache->longest_prefix(prompt, usable);
    if (length == 0 || !cache->restore(prompt, usable, 2)) return 0;
    CHECK(std::equal(prompt.begin(), prompt.begin() + length, slots[2].begin()));
    return length;
  }

  std::vector<std::string> notes;
  std::vector<Tokens> slots{3};
  std::unique_ptr<PrefixCache> cache;
};

std::uint64_t bytes_of(int num_tokens) {
  return static_cast<std::uint64_t>(num_tokens) * (bytes_per_token + sizeof(Token));
}

}  // namespace

TEST(what_was_overwritten_comes_back) {
  Machine machine(1u << 20);
  machine.overwrite(conversation(0, 500));
  machine.overwrite(conversation(1, 300));
  CHECK(machine.restore(conversation(0, 520)) == 500);
  CHECK(machine.restore(conversation(1, 200)) == 199);
  CHECK(machine.restore(conversation(2, 500)) == 0);  // three tokens are not worth it
  machine.overwrite(conversation(3, 31));
  CHECK(machine.cache->num_in_memory() == 2);
}

TEST(the_last_used_stay_within_the_limit) {
  Machine machine(bytes_of(1000));
  for (const int id : {0, 1, 2}) machine.overwrite(conversation(id, 300));
  CHECK(machine.restore(conversation(0, 310)) == 300);
  machine.overwrite(conversation(3, 300));
  CHECK(machine.cache->memory_used() <= bytes_of(1000) && machine.cache->num_in_memory() == 3);
  CHECK(machine.restore(conversation(1, 310)) == 0 && machine.restore(conversation(0, 310)) == 300);
  machine.overwrite(conversation(4, 1001));  // larger than all of it
  CHECK(machine.cache->num_in_memory() == 3);
  Machine none(0);
  none.overwrite(conversation(0, 300));
  CHECK(none.cache->num_in_memory() == 0);
}

TEST(what_is_kept_again_counts_as_used) {
  Machine machine(bytes_of(1000));
  for (const int id : {0, 1, 2, 0, 3}) machine.overwrite(conversation(id, 300));
  CHECK(machine.cache->num_in_memory() == 3 && machine.cache->memory_used() == bytes_of(900));
  CHECK(machine.restore(conversation(1, 310)) == 0 && machine.restore(conversation(0, 310)) == 300);
}

TEST(a_longer_turn_replaces_the_shorter_one) {
  Machine machine(1u << 20);
  machine.overwrite(conversation(0, 300));
  machine.overwrite(conversation(0, 400));
  CHECK(machine.cache->num_in_memory() == 1 && machine.cache->memory_used() == bytes_of(400));
  machine.overwrite(conversation(0, 350));  // is there already
  CHECK(machine.cache->num_in_memory() == 1 && machine.restore(conversation(0, 450)) == 400);
}

TEST(a_model_that_cannot_go_back_gets_whole_prefixes_only) {
  Machine machine(1u << 20, {}, 0, 1 << 20, false);
  machine.overwrite(conversation(0, 300));
  CHECK(machine.restore(conversation(0, 290)) == 0 && machine.restore(conversation(0, 301)) == 300);
}

TEST(prefixes_that_cannot_be_restored_are_not_kept_again) {
  Machine machine(1u << 20, {}, 0, 200);
  machine.overwrite(conversation(0, 300));
  machine.overwrite(conversation(1, 150));
  CHECK(machine.restore(conversation(0, 310)) == 0 && machine.cache->num_in_memory() == 1);
  machine.overwrite(conversation(2, 350));
  CHECK(machine.cache->num_in_memory() == 1 && machine.restore(conversation(1, 160)) == 150);
}

TEST(a_folder_outlives_the_process) {
  const SavedPrefixes folder;
  {
    Machine machine(0, folder.path);
    machine.keep_idle(conversation(0, 500));
    machine.keep_idle(conversation(0, 500));
    machine.keep_idle(conversation(1, 300));
    machine.keep_idle(conversation(0, 520));  // the next turn takes the place of the last
  }
  CHECK(folder.files().size() == 2);
  Machine later(0, folder.path);
  CHECK(later.restore(conversation(0, 600)) == 520 && later.restore(conversation(1, 310)) == 300 &&
        later.notes.empty());
  Machine other(0, folder.path, 1u << 30, 1 << 20, true, "another model");
  CHECK(other.restore(conversation(0, 600)) == 0 && other.notes.empty());
  other.keep_idle(conversation(0, 520));
  other.cache.reset();
  CHECK(folder.files().size() == 3);  // both models' caches of this text
}

TEST(processes_share_a_folder) {
  const SavedPrefixes folder;
  Machine one(0, folder.path);
  const auto two = std::make_unique<Machine>(0, folder.path);
  two->keep_idle(conversation(0, 300));
  two->cache.reset();
  CHECK(one.restore(conversation(0, 310)) == 300);
  CHECK(one.cache->longest_prefix(conversation(0, 310), 309) == 300);
  for (const fs::path& file : folder.files()) fs::remove(file);  // as another process does that needs room
  CHECK(one.restore(conversation(0, 310)) == 0 && one.notes.empty());
}

TEST(a_folder_has_a_limit) {
  const SavedPrefixes folder;
  for (int id = 0; id < 5; ++id) {
    Machine machine(0, folder.path, bytes_of(700));
    machine.keep_idle(conversation(id, 300));
    machine.keep_idle(conversation(id + 10, 800));  // larger than the limit
    machine.cache.reset();
    for (const fs::path& file : folder.files())
      fs::last_write_time(file, fs::last_write_time(file) - std::chrono::seconds(10));
  }
  CHECK(folder.files().size() == 2);
  Machine machine(0, folder.path, bytes_of(700));
  CHECK(machine.restore(conversation(4, 310)) == 300 && machine.restore(conversation(3, 310)) == 300);
  CHECK(machine.restore(conversation(2, 310)) == 0);
}

TEST(damaged_files_are_noted_and_removed) {
  const SavedPrefixes folder;
  {
    Machine machine(0, folder.path);
    machine.keep_idle(conversation(0, 300));
  }
  const fs::path file = folder.files().at(0);
  std::ifstream in(file, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(in)), {});
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{9}, std::size_t{14}, content.size() / 2, content.size() - 1}) {
    std::string bad = content;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(file, std::ios::binary) << bad;
    Machine machine(0, folder.path);
    CHECK(machine.restore(conversation(0, 310)) == 0);
    CHECK(machine.notes.size() == (at < 16 ? 0u : 1u) &&
          fs::exists(file) == (at < 16));  // of another kind, version or model: not ours
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{40}, content.size() - 1}) {
    std::ofstream(file, std::ios::binary) << content.substr(0, size);
    Machine machine(0, folder.path);
    CHECK(machine.restore(conversation(0, 310)) == 0);
  }
  std::ofstream(file, std::ios::binary) << content;
  Machine machine(0, folder.path);
  CHECK(machine.restore(conversation(0, 310)) == 300);
}

TEST(a_folder_that_cannot_be_made_is_an_error) {
  const SavedPrefixes folder;
  std::ofstream(folder.path) << "a file";
  CHECK_THROWS(Machine(0, folder.path), Error, "cannot be created as a folder");
}

TEST(a_key_differs_with_all_that_a_cache_depends_on) {
  const CacheKey key = {"abc", "f16", 2, "avx2", "", "", 0};
  CHECK(key.text() == "model abc, f16, 2 sequences, avx2");
  CacheKey other = key;
  other.num_head_layers = 1;
  CHECK(other.text() == key.text() + " mtp 1");
  other.weights = ", rounded";
  CHECK(other.text() == key.text() + " mtp 1, rounded");
}

TEST_MAIN()
