// The Generator and the quantizer when the system has no more: memory, threads, mappings, or a sane clock. A call does
// its work or throws; what comes after is as if it had not happened.

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "check.h"
#include "engine/generator.h"
#include "llama.h"
#include "quantize/gguf_quantizer.h"

namespace faults {

// Counts down at each call; the call that reaches 0 fails. Negative: none.
thread_local int allocation = -1;           // on this thread
std::atomic<int> allocation_of_worker{-1};  // on threads that the tests start
std::atomic<int> allocation_of_copy{-1};    // by llama.cpp while it copies a slot
thread_local bool is_worker = true;         // except for the one that runs the tests
thread_local bool is_paused = false, is_copying = false;
std::atomic<int> thread{-1}, mapping{-1};
std::atomic<bool> clock_jumps{false};

template <class Counter>
bool fails(Counter& counter) {
  if (counter <= 0) return false;
  return --counter == 0;
}

// Sets a flag while it lives.
class While {
 public:
  explicit While(bool& flag) : flag_(flag) { flag_ = true; }
  ~While() { flag_ = false; }
  While(const While&) = delete;
  While& operator=(const While&) = delete;

 private:
  bool& flag_;
};

// llama.cpp's own allocations succeed, except for copies when a test says so.
bool allocation_fails() {
  if (is_copying) return fails(allocation_of_copy);
  return !is_paused && (is_worker ? fails(allocation_of_worker) : fails(allocation));
}

template <class Function>
Function real(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace faults

// The array and nothrow forms call this one. Not inline: gcc would warn of memory from one of them that the other's
// insides release.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = faults::allocation_fails() ? nullptr : std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// The executable's functions go before those of the C library, also for calls from libstdc++.
#define FAULTY extern "C" __attribute__((visibility("default")))
FAULTY int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  static const auto call = faults::real(&pthread_create, "pthread_create");
  return faults::fails(faults::thread) ? EAGAIN : call(thread, attributes, run, argument);
}
FAULTY void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  static const auto call = faults::real(&mmap, "mmap");
  if (!faults::fails(faults::mapping)) return call(at, bytes, protection, flags, file, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}
FAULTY int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto call = faults::real(&clock_gettime, "clock_gettime");
  static std::atomic<int> calls{0};
  const int result = call(clock, time);
  if (faults::clock_jumps) time->tv_sec += calls++ % 3 == 0 ? -3600 : calls % 5 == 0 ? 86400 : 0;
  return result;
}
extern "C" {
std::int32_t __real_llama_decode(llama_context* context, llama_batch batch);
std::int32_t __wrap_llama_decode(llama_context* context, llama_batch batch) {
  const faults::While theirs(faults::is_paused);
  return __real_llama_decode(context, batch);
}
void __real_llama_memory_seq_cp(llama_memory_t memory, llama_seq_id from, llama_seq_id to, llama_pos begin,
                                llama_pos end);
void __wrap_llama_memory_seq_cp(llama_memory_t memory, llama_seq_id from, llama_seq_id to, llama_pos begin,
                                llama_pos end) {
  const faults::While theirs(faults::is_copying);
  __real_llama_memory_seq_cp(memory, from, to, begin, end);
}
bool __real__ZN13llama_context13memory_updateEb(llama_context* context, bool optimizes);
bool __wrap__ZN13llama_context13memory_updateEb(llama_context* context, bool optimizes) {
  const faults::While theirs(faults::is_copying);
  return __real__ZN13llama_context13memory_updateEb(context, optimizes);
}
llama_model* __real_llama_model_load_from_file(const char* path, llama_model_params params);
llama_model* __wrap_llama_model_load_from_file(const char* path, llama_model_params params) {
  const faults::While theirs(faults::is_paused);
  return __real_llama_model_load_from_file(path, params);
}
llama_context* __real_llama_init_from_model(llama_model* model, llama_context_params params);
llama_context* __wrap_llama_init_from_model(llama_model* model, llama_context_params params) {
  const faults::While theirs(faults::is_paused);
  return __real_llama_init_from_model(model, params);
}
}

namespace {

using namespace specdec;
namespace fs = std::filesystem;

const bool runs_tests = !(faults::is_worker = false);

const std::string model = std::string(MODELS) + "stdlib-draft-f16.gguf";

GeneratorOptions options(int num_threads) {
  GeneratorOptions options;
  options.target = model;
  options.draft = DraftModel{model};
  options.n_ctx = 128;
  options.n_threads = num_threads;
  options.max_sequences = 2;
  return options;
}

Request request() {
  Request request;
  request.prompt = "def f(x):\n    return";
  request.max_tokens = 5;
  request.seed = 3;
  request.stop = {"no such text"};
  return request;
}

std::string text_of(const std::shared_ptr<RequestHandle>& handle) {
  std::string text;
  PieceReader pieces(handle);
  while (const auto piece = pieces.next()) text += piece->text;
  return text;
}

std::string text_of(Generator& generator) { return text_of(generator.submit(request())); }

TEST(any_allocation_of_the_thread_that_submits_fails) {
  Generator generator(options(1));
  const std::string expected = text_of(generator);
  int at = 1;
  for (bool has_failed = true; has_failed; ++at) {
    faults::allocation = at;
    try {
      text_of(generator);
    } catch (const std::exception&) {  // bad_alloc, or what became of it
    }
    has_failed = faults::allocation == 0;
    faults::allocation = -1;
    CHECK(text_of(generator) == expected);
    CHECK(generator.num_unfinished() == 0);
  }
  CHECK(at > 10);
}

// How a submitted request ends; "?" if it does not.
std::string end_of(const std::shared_ptr<RequestHandle>& handle) {
  if (!handle->wait_for_end(std::chrono::seconds(60))) return "?";
  return handle->error() ? "error" : text_of(handle);
}

TEST(any_allocation_of_the_models_thread_fails) {
  Generator generator(options(1));
  const std::string expected = text_of(generator);
  int at = 1, num_failed = 0;
  for (bool has_failed = true; has_failed; ++at) {
    faults::allocation_of_worker = at;
    const std::string text = end_of(generator.submit(request()));
    has_failed = faults::allocation_of_worker == 0;
    faults::allocation_of_worker = -1;
    CHECK(text == expected || (has_failed && text == "error"));
    num_failed += text == "error" ? 1 : 0;
    CHECK(text_of(generator) == expected);
    CHECK(generator.num_unfinished() == 0);
  }
  CHECK(at > 20 && num_failed > 5);
}

TEST(any_allocation_fails_while_two_requests_run) {
  Generator generator(options(1));
  const std::string expected = text_of(generator);
  int at = 1;
  for (bool has_failed = true; has_failed; ++at) {
    faults::allocation_of_worker = at;
    const auto first = generator.submit(request()), second = generator.submit(request());
    const std::string texts[] = {end_of(first), end_of(second)};
    has_failed = faults::allocation_of_worker == 0;
    faults::allocation_of_worker = -1;
    for (const std::string& text : texts)
      CHECK(text == expected || (has_failed && text == "error"));  // nothing lost or repeated
    CHECK(text_of(generator) == expected);
  }
  CHECK(at > 20);
}

// ---- Conversations that are copied to another slot, or restored after their slot was overwritten

// A text of about 60 tokens, and what follows it.
Request turn_of(int conversation, const std::string& end) {
  Request turn = request();
  turn.prompt = "def f" + std::to_string(conversation) + "(x):\n";
  for (int i = 0; i < 10; ++i) turn.prompt += "    x = x + " + std::to_string(conversation) + "\n";
  turn.prompt += end;
  turn.max_tokens = 3;
  turn.sampling.temperature = 0;
  return turn;
}

// Ten prompts, as a fresh process continues them.
class FreshTexts {
 public:
  FreshTexts() {
    for (int i = 0; i < 10; ++i) {
      turns_.push_back(turn_of(i % 4, i < 4 ? "" : "    return " + std::to_string(i)));
      Generator generator(options(1));
      texts_.push_back(text_of(generator.submit(turns_.back())));
    }
  }
  void check(Generator& generator) const {
    for (std::size_t i = 0; i < turns_.size(); ++i) CHECK(text_of(generator.submit(turns_[i])) == texts_[i]);
  }

 private:
  std::vector<Request> turns_;
  std::vector<std::string> texts_;
};

// `prepare` brings the generator into the state before the turn, which is run with a fault at each allocation that
// `counter` counts.
void check_turn_with_faults(Generator& generator, const Request& turn, const std::function<void()>& prepare,
                            std::atomic<int>& counter = faults::allocation_of_worker) {
  const FreshTexts fresh;
  prepare();
  const auto first = generator.submit(turn);
  const std::string expected = text_of(first);
  CHECK(first->stats().prompt_cached_tokens > 32);
  int at = 1;
  for (bool has_failed = true; has_failed; at += 1 + at / 40) {
    prepare();
    counter = at;
    const std::string text = end_of(generator.submit(turn));
    has_failed = counter == 0;
    counter = -1;
    CHECK(text == expected || (has_failed && text == "error"));
    fresh.check(generator);
  }
  CHECK(at > 10);
}

TEST(any_allocation_fails_while_a_conversation_is_restored) {
  GeneratorOptions one_slot = options(1);
  one_slot.max_sequences = 1;
  Generator generator(one_slot);
  SavedPrefixes::Kept kept;
  kept.memory_bytes = 64 << 20;
  generator.prefixes().keep(kept, {});
  check_turn_with_faults(generator, turn_of(0, "    return x"), [&] {
    (void)text_of(generator.submit(turn_of(0, "")));
    (void)text_of(generator.submit(turn_of(5, "")));
  });
}

// Two slots, of which the first holds the beginning of the turn.
class CopiedTurn {
 public:
  CopiedTurn() : generator(long_context()) {}

  void check(std::atomic<int>& counter) {
    std::string answer;
    for (int i = 0; i < 12; ++i) answer += "    y = y + 1\n";
    const auto prepare = [&] {
      for (const int slot : {0, 1}) generator.prefixes().erase_slot(slot);
      (void)text_of(generator.submit(turn_of(0, answer)));
    };
    check_turn_with_faults(generator, turn_of(0, "    return x"), prepare, counter);
  }

 private:
  static GeneratorOptions long_context() {
    GeneratorOptions longer = options(1);
    longer.n_ctx = 256;
    return longer;
  }

  Generator generator;
};

TEST(any_allocation_fails_while_a_conversation_is_copied) { CopiedTurn().check(faults::allocation_of_worker); }

// Its list of copies, which it makes at the next pass or, for us, at once.
TEST(any_allocation_of_llama_cpp_fails_while_a_conversation_is_copied) {
  CopiedTurn().check(faults::allocation_of_copy);
}

TEST(any_allocation_of_a_new_generator_fails) {
  std::string expected;
  int at = 1, num_failed = 0;
  for (bool has_failed = true; has_failed; at += 1 + at / 50) {
    faults::allocation = at;
    try {
      Generator generator(options(1));
      has_failed = faults::allocation == 0;
      faults::allocation = -1;
      const std::string text = text_of(generator);
      if (expected.empty()) expected = text;
      CHECK(text == expected);
    } catch (const std::exception&) {
      has_failed = true;
      ++num_failed;
    }
    faults::allocation = -1;
  }
  CHECK(num_failed > 100 && !expected.empty());
}

TEST(any_allocation_of_a_constrained_request_fails) {
  Generator generator(options(1));
  Request constrained = request();
  constrained.regex = "(ab|[c-e]{2,3})+";
  const auto text_under_it = [&] { return text_of(generator.submit(constrained)); };
  const std::string expected = text_under_it();
  int at = 1;
  for (bool has_failed = true; has_failed; at += 1 + at / 50) {
    faults::allocation = at;
    try {
      text_under_it();
    } catch (const std::exception&) {
    }
    has_failed = faults::allocation == 0;
    faults::allocation = -1;
    CHECK(text_under_it() == expected);
  }
  CHECK(at > 100);
}

TEST(any_allocation_of_the_quantizer_fails) {
  const fs::path folder = fs::temp_directory_path() / ("specdec-faults-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string output = (folder / "out.gguf").string();
  QuantizeOptions options;
  options.num_threads = 2;
  int at = 1;
  for (bool has_failed = true; has_failed; at += 1 + at / 10) {
    faults::allocation = at;
    try {
      quantize_gguf(model, output, options);
    } catch (const std::exception&) {
    }
    has_failed = faults::allocation == 0;
    faults::allocation = -1;
    CHECK(fs::exists(output) || has_failed);
    for (const auto& file : fs::directory_iterator(folder)) CHECK(file.path() == output);  // no temporary file is left
    if (fs::exists(output)) GgufFile::read(output);
    fs::remove(output);
  }
  CHECK(at > 20);
  fs::remove_all(folder);
}

TEST(an_allocation_fails_while_threads_are_started) {
  for (int at = 1; at < 12; ++at) {
    std::atomic<int> done{0};
    faults::allocation = at;
    try {
      for_each_piece(4, 100, [&](std::int64_t) { ++done; });
      CHECK(done == 100);
    } catch (const std::bad_alloc&) {
    }
    faults::allocation = -1;
  }
}

TEST(a_thread_cannot_be_started) {
  std::string expected;
  for (int at = 1; at < 8; ++at) {
    faults::thread = at;
    try {
      Generator generator(options(3));
      faults::thread = -1;
      const std::string text = text_of(generator);
      if (expected.empty()) expected = text;
      CHECK(text == expected);
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("threads") != std::string::npos);
    }
    faults::thread = -1;
  }
  CHECK(!expected.empty());
}

TEST(a_mapping_fails) {
  std::string expected;
  int at = 1;
  for (bool has_failed = true; has_failed; ++at) {
    faults::mapping = at;
    try {
      Generator generator(options(1));
      const std::string text = text_of(generator);
      if (expected.empty()) expected = text;
      CHECK(text == expected);
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
    has_failed = faults::mapping == 0;
    faults::mapping = -1;
  }
  CHECK(at > 1 && !expected.empty());
}

TEST(the_clock_jumps) {
  Generator generator(options(1));
  const std::string expected = text_of(generator);
  faults::clock_jumps = true;
  for (int times = 0; times < 10; ++times) CHECK(text_of(generator) == expected);
  faults::clock_jumps = false;
}

}  // namespace

TEST_MAIN()
