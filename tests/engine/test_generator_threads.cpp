// The Generator on real models from several threads, with a pool of several threads of its own: `make tsan` runs this with
// llama.cpp under the thread sanitizer, too.
//
// A Generator is used by one thread at a time (the bindings see to that); here a mutex hands it from thread to thread between any
// two of its calls.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "engine/generator.h"

namespace {

using namespace specdec;

const std::string model = std::string(MODELS) + "stdlib-draft-f16.gguf";

GeneratorOptions options(const DraftSource& draft, int max_sequences) {
  GeneratorOptions options;
  options.target = model;
  options.draft = draft;
  options.n_ctx = 128;
  options.n_threads = 3;
  options.max_sequences = max_sequences;
  options.num_draft_tokens = 2;
  return options;
}

Request request(int number) {
  const char* const prompts[] = {"def f(x):\n", "import os\n", "class A:\n", "for i in range(", "return self."};
  Request request;
  request.prompt = prompts[number % 5];
  request.max_tokens = 6 + number % 3;
  request.seed = static_cast<std::uint64_t>(number);
  return request;
}

std::string run_alone(Generator& generator, const Request& request) {
  generator.start(request);
  std::string text;
  while (const auto piece = generator.next()) text += piece->text;
  return text;
}

void run(std::vector<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
}

TEST(several_threads_submit_cancel_and_take_events) {
  constexpr int num_threads = 3, num_requests = 4;  // of each thread; every fourth is cancelled
  std::map<int, std::string> expected;
  {
    Generator alone(options(DraftModel{model}, 1));
    for (int number = 0; number < num_threads * num_requests; ++number) expected[number] = run_alone(alone, request(number));
  }
  Generator generator(options(DraftModel{model}, 2));
  std::mutex mutex;
  std::map<std::int64_t, int> numbers;  // of requests, by id
  std::map<int, std::string> texts;
  std::set<int> cancelled, finished;
  const auto turn = [&](int thread) {
    for (int i = 0; i < num_requests; ++i) {
      const int number = thread * num_requests + i;
      {
        const std::lock_guard<std::mutex> lock(mutex);
        const std::int64_t id = generator.submit(request(number));
        numbers[id] = number;
        if (i == 3) {
          generator.cancel(id);
          cancelled.insert(number);
        }
      }
      for (int event = 0; event < 3; ++event) {
        const std::lock_guard<std::mutex> lock(mutex);
        const std::optional<Event> taken = generator.next_event();
        if (!taken) continue;
        const int of = numbers.at(taken->text->id());
        if (taken->piece) texts[of] += taken->piece->text;
        if (taken->is_last()) finished.insert(of);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < num_threads; ++thread) threads.emplace_back(turn, thread);
  run(threads);
  while (const std::optional<Event> event = generator.next_event()) {
    const int of = numbers.at(event->text->id());
    if (event->piece) texts[of] += event->piece->text;
    if (event->is_last()) finished.insert(of);
  }
  for (const auto& [number, text] : expected) {
    CHECK((finished.count(number) == 1) != (cancelled.count(number) == 1));
    if (finished.count(number) == 1) CHECK(texts[number] == text);
  }
}

TEST(generators_run_side_by_side) {
  const std::vector<DraftSource> drafts = {NoDraft(), SuffixDecoding(), DraftModel{model}};
  std::vector<std::string> texts(drafts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    threads.emplace_back([&, i] {
      Request greedy = request(0);
      greedy.sampling.temperature = 0.0;
      for (int times = 0; times < 2; ++times) {  // loaded, used and freed while the others run
        Generator generator(options(drafts[i], 1));
        texts[i] = run_alone(generator, greedy);
      }
    });
  }
  run(threads);
  CHECK(!texts[0].empty() && texts[1] == texts[0] && texts[2] == texts[0]);
}

TEST(a_thread_pool_is_handed_on) {
  const auto threads = std::make_shared<ThreadPool>(3);
  std::string first, second;
  std::thread([&] { first = run_alone(*std::make_unique<Generator>(options(NoDraft(), 1), threads), request(1)); }).join();
  std::thread([&] { second = run_alone(*std::make_unique<Generator>(options(NoDraft(), 1), threads), request(1)); }).join();
  CHECK(!first.empty() && first == second);
}

TEST(another_thread_asks_to_stop) {
  Generator generator(options(DraftModel{model}, 1));
  const std::string expected = run_alone(generator, request(2));
  std::atomic<bool> is_cancelled{false}, is_running{false};
  generator.set_cancel_check([&] { return is_running = true, is_cancelled.load(); });
  std::thread other([&] {
    while (!is_running) std::this_thread::yield();
    is_cancelled = true;
  });
  Request endless = request(2);
  endless.max_tokens = 100;
  bool was_cancelled = false;
  try {
    for (int times = 0; times < 1000 && !was_cancelled; ++times) run_alone(generator, endless);
  } catch (const Cancelled&) {
    was_cancelled = true;
  }
  other.join();
  CHECK(was_cancelled);
  is_cancelled = false;
  CHECK(run_alone(generator, request(2)) == expected);
}

}  // namespace

TEST_MAIN()
