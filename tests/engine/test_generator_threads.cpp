// The Generator on real models from several threads, with a pool of several threads of its own: `make tsan` runs this
// with llama.cpp under the thread sanitizer, too.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
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

std::string text_of(const std::shared_ptr<RequestHandle>& handle) {
  std::string text;
  PieceReader pieces(handle);
  while (const auto piece = pieces.next()) text += piece->text;
  return text;
}

std::string run_alone(Generator& generator, const Request& request) { return text_of(generator.submit(request)); }

void run(std::vector<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
}

TEST(several_threads_submit_and_cancel) {
  constexpr int num_threads = 3, num_requests = 4;  // of each thread; every fourth is cancelled
  std::map<int, std::string> expected;
  {
    Generator alone(options(DraftModel{model}, 1));
    for (int number = 0; number < num_threads * num_requests; ++number)
      expected[number] = run_alone(alone, request(number));
  }
  Generator generator(options(DraftModel{model}, 2));
  std::atomic<int> num_equal{0}, num_cancelled{0};
  const auto use = [&](int thread) {
    std::vector<std::shared_ptr<RequestHandle>> handles;
    for (int i = 0; i < num_requests; ++i) {
      handles.push_back(generator.submit(request(thread * num_requests + i)));
      if (i == 3) handles.back()->cancel();
      (void)generator.drafting();
    }
    for (int i = 0; i < num_requests; ++i) {
      try {
        if (text_of(handles[static_cast<std::size_t>(i)]) == expected.at(thread * num_requests + i)) ++num_equal;
      } catch (const Cancelled&) {
        ++num_cancelled;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < num_threads; ++thread) threads.emplace_back(use, thread);
  run(threads);
  CHECK(num_equal + num_cancelled == num_threads * num_requests && num_cancelled <= num_threads);
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
  std::thread([&] {
    first = run_alone(*std::make_unique<Generator>(options(NoDraft(), 1), threads), request(1));
  }).join();
  std::thread([&] {
    second = run_alone(*std::make_unique<Generator>(options(NoDraft(), 1), threads), request(1));
  }).join();
  CHECK(!first.empty() && first == second);
}

TEST(a_generator_is_closed_while_threads_wait) {
  Generator generator(options(DraftModel{model}, 1));
  const std::string expected = run_alone(generator, request(2));
  Request endless = request(2);
  endless.max_tokens = 100;
  std::atomic<int> num_ended{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      try {
        for (int times = 0; times < 1000; ++times) run_alone(generator, endless);
      } catch (const Cancelled&) {
        ++num_ended;
      }
    });
  }
  CHECK(run_alone(generator, request(2)) == expected);
  generator.close();
  run(threads);
  CHECK(num_ended == 3);
}

}  // namespace

TEST_MAIN()
