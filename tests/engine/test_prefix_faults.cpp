// Conversations in a folder, where opening, reading and writing fail at any moment: a text is never another one's, and
// what cannot be read for a moment is still there afterwards.

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "engine/generator.h"
#include "engine/prefix_cache.h"
#include "faults.h"
#include "platform/temporary_folder.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

Tokens conversation(int id, int length) {
  Tokens tokens;
  for (int i = 0; i < length; ++i) tokens.push_back(1000 * (id + 1) + i);
  return tokens;
}

// States are the tokens themselves.
class ToyStates final : public SlotStates {
 public:
  PrefixFile save(int, const Text& text, int length) override {
    PrefixFile prefix;
    prefix.text = prefix_of(text, length);
    prefix.target_state.assign(static_cast<std::size_t>(length) * 20, 'x');
    return prefix;
  }
  bool restore(int, const PrefixFile& prefix) override { return restored = prefix.text.tokens, true; }
  Tokens restored;
};

struct Kept {
  explicit Kept(const std::string& folder) {
    PrefixCache::Options options;
    options.folder = std::make_unique<PrefixFolder>(folder, 1u << 30, "model", "", [](const std::string&) {});
    cache = std::make_unique<PrefixCache>(std::make_unique<ToyStates>(), std::move(options));
  }
  void keep(const Tokens& tokens) const {
    while (!cache->idle(0, tokens, static_cast<int>(tokens.size()))) std::this_thread::yield();
  }
  int length_of(const Tokens& prompt) const {
    return cache->longest_prefix(prompt, static_cast<int>(prompt.size()) - 1);
  }
  bool restores(const Tokens& prompt) const { return cache->restore(prompt, static_cast<int>(prompt.size()) - 1, 0); }
  std::unique_ptr<PrefixCache> cache;
};

// Every call of `work` fails once, in each of these ways. Then check(whether it failed).
template <class Work, class Check>
int with_every_call_failing(Work&& work, Check&& check) {
  int num_failed = 0;
  for (const int error : {EIO, EMFILE, ENOMEM, ENOSPC}) {
    for (int at = 1;; ++at) {
      work([&] { faults::arm(faults::Kind::error, at, error); });
      const bool has_failed = faults::calls >= at;
      faults::arm(faults::Kind::none, 0);
      check(has_failed);
      if (!has_failed) break;
      ++num_failed;
      CHECK(at < 200);
    }
  }
  return num_failed;
}

TEST(a_conversation_outlives_the_failed_reads_of_others) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  Kept(path).keep(conversation(0, 300));
  const std::filesystem::path kept_file = std::filesystem::directory_iterator(path)->path();
  const auto write_another = [&](auto&& arm) {
    const Kept kept(path);
    arm();
    kept.keep(conversation(1, 200));
  };
  const int num_failed = with_every_call_failing(write_another, [&](bool) {
    CHECK(Kept(path).length_of(conversation(0, 310)) == 300);
    for (const auto& file : std::filesystem::directory_iterator(path)) {
      if (file.path() != kept_file) std::filesystem::remove(file.path());
    }
  });
  CHECK(num_failed > 20);
}

TEST(what_cannot_be_read_for_a_moment_is_found_later) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  Kept(path).keep(conversation(0, 300));
  for (int at = 1;; ++at) {
    const Kept kept(path);
    faults::arm(faults::Kind::error, at, EIO);
    if (kept.length_of(conversation(0, 310)) > 0) (void)kept.restores(conversation(0, 310));
    const bool has_failed = faults::calls >= at;
    faults::arm(faults::Kind::none, 0);
    CHECK(kept.length_of(conversation(0, 310)) == 300 && kept.restores(conversation(0, 310)));
    if (!has_failed) break;
    CHECK(at < 100);
  }
}

// ---- With models

const std::string model = std::string(MODELS) + "stdlib-draft-f16.gguf";

std::string prompt_of(int which) {
  std::string text = "def f" + std::to_string(which) + "(x):\n";
  for (int i = 0; i < 8; ++i) text += "    x = x + " + std::to_string(which) + "\n";
  return text;
}

std::string text_of(Generator& generator, const std::string& prompt) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = 4;
  request.sampling.temperature = 0;
  std::string text;
  PieceReader pieces(generator.submit(request));
  while (const auto piece = pieces.next()) text += piece->text;
  return text;
}

struct Process {
  explicit Process(const std::string& folder) {
    GeneratorOptions options;
    options.target = model;
    options.draft = DraftModel{model};
    options.n_ctx = 128;
    options.n_threads = 1;
    generator = std::make_unique<Generator>(options);
    if (folder.empty()) return;
    SavedPrefixes::Kept kept;
    kept.memory_bytes = 0;
    kept.folder = folder;
    kept.folder_bytes = 1u << 30;
    generator->prefixes().keep(kept, [](const std::string&) {});
  }
  std::string text(const std::string& prompt) const { return text_of(*generator, prompt); }
  std::unique_ptr<Generator> generator;
};

TEST(texts_are_those_of_a_fresh_process_whatever_fails_while_a_conversation_is_restored) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  std::vector<std::string> expected;
  for (int i = 0; i < 10; ++i) expected.push_back(Process("").text(prompt_of(i)));
  {
    CHECK(Process(path).text(prompt_of(0)) == expected[0]);
  }
  int num_failed = 0;
  for (const int error : {EIO, EMFILE}) {
    for (int at = 1;; ++at) {
      const Process process(path);
      faults::arm(faults::Kind::error, at, error);
      CHECK(process.text(prompt_of(0)) == expected[0]);
      const bool has_failed = faults::calls >= at;
      faults::arm(faults::Kind::none, 0);
      for (int i = 0; i < 10; ++i) CHECK(process.text(prompt_of(i)) == expected[static_cast<std::size_t>(i)]);
      if (!has_failed) break;
      ++num_failed;
      CHECK(at < 200);
    }
  }
  CHECK(num_failed > 4);
}

}  // namespace

TEST_MAIN()
